"""[rollout]: how many trajectories, and their budgets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class RolloutSection(Section):
    mode: Literal["batch", "segments", "quota", "async"] = "batch"
    """When a step's rollout ends: with every trajectory (batch), with every pass (segments), or with enough groups,
    while the rest goes on in the next step (quota) or at once (async). docs/rollouts.md."""
    groups_per_step: int = Field(default=16, ge=1)
    """Tasks whose groups are trained on in one step."""
    group_size: int = Field(default=8, ge=2)
    """Samples of one task; an advantage is relative to them."""
    temperature: float = Field(default=1.0, gt=0)
    max_sampled_tokens: int = Field(default=64, ge=1)
    """Generated length of one trajectory, all segments and turns together."""
    max_context_tokens: int = Field(default=256, ge=2)
    """Context length of one trajectory, prompt and tool output included."""
    max_tool_calls: int = Field(default=2, ge=0)
    max_invalid_calls: int = Field(default=3, ge=1)
    """Calls in a row that cannot be run, empty or malformed ones, before the trajectory ends."""
    max_tool_output_tokens: int = Field(default=64, ge=4)
    """Tokens of one tool result that are shown to the model; the cut is marked."""
    segment_sampled_tokens: int = Field(default=0, ge=0)
    """Mode segments: sampled tokens of one pass; 0 sets no bound. What is unfinished goes on in the next step."""
    segment_tool_calls: int = Field(default=0, ge=0)
    """Mode segments: tool calls of one pass; 0 sets no bound."""
    max_segments: int = Field(default=4, ge=1)
    over_submission: float = Field(default=1.5, ge=1)
    """Modes quota and async: groups begun and unfinished at a time, as a multiple of groups_per_step."""
    max_in_flight: int = Field(default=0, ge=0)
    """Mode async: trajectories begun and unfinished at a time; 0 leaves it to over_submission."""
    max_running_context_tokens: int = Field(default=0, ge=0)
    """Context tokens of all trajectories that run at a time, to fit an engine's cache; others wait. 0 sets no bound."""
    max_refills: int = Field(default=0, ge=0)
    """How often a step may draw more tasks when dynamic sampling left fewer than groups_per_step groups."""
    max_staleness: int = Field(default=1, ge=0)
    """Groups whose oldest token is more than this many versions old are dropped and counted. Modes quota and async wait
    for groups before they get so old; with 0 they are batch."""
    min_survivors: int = Field(default=2, ge=2)
    """Samples a group needs after infrastructure failures were dropped."""
    deadline_seconds: float = Field(default=3600.0, gt=0)
    """Longest time one step's rollout may take before it ends with an error that names what it waited for."""
