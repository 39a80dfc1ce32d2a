"""[rollout]: how many trajectories, and their budgets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class RolloutSection(Section):
    mode: Literal["batch", "segments", "quota", "async"] = "segments"
    """How a step's rollouts end. batch: with all of its trajectories. segments: with one pass of each, bounded by
    segment_sampled_tokens and segment_tool_calls (without bounds it is batch). quota: with groups_per_step groups, out
    of over_submission times as many. async: the same, out of all that max_staleness allows. docs/rollouts.md."""
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
    """(segments) Sampled tokens of one pass; 0 sets no bound. What is unfinished goes on in the next step."""
    segment_tool_calls: int = Field(default=0, ge=0)
    """(segments) Tool calls of one pass; 0 sets no bound."""
    max_segments: int = Field(default=4, ge=1)
    """(segments) Passes of one trajectory; the last one has no bound of its own."""
    over_submission: float = Field(default=1.5, ge=1)
    """(quota) Groups in flight, as a multiple of groups_per_step. Above 1 a group that ends is replaced at once; 1 is
    batch."""
    max_in_flight: int = Field(default=0, ge=0)
    """(async) Trajectories in flight; 0 leaves the bound to max_staleness."""
    overdue: Literal["wait", "truncate", "cancel"] = "wait"
    """(quota, async) A trajectory that the next step would find too old, when this one has all else it needs: wait for
    it, end it as if a token budget were used up, or leave it out of its group."""
    max_running_context_tokens: int = Field(default=0, ge=0)
    """Context tokens of all trajectories that generate or wait for a tool; others wait in line, the oldest first. 0
    sets no bound. 0.7 to 0.85 of what the engines' caches hold is a good value where they are short."""
    max_retries: int = Field(default=1, ge=0)
    """How often one trajectory goes on after a failure of engine or sandbox, before it is dropped."""
    max_refills: int = Field(default=0, ge=0)
    """How often a step may draw more tasks when dynamic sampling left fewer than groups_per_step groups."""
    max_staleness: int = Field(default=1, ge=0)
    """Groups whose oldest token is more than this many versions old are dropped and counted. quota and async let none
    become so old: what the next step would drop belongs into this one. With 0 they are batch."""
    min_survivors: int = Field(default=2, ge=2)
    """Samples a group needs after infrastructure failures were dropped."""
    deadline_seconds: float = Field(default=3600.0, gt=0)
    """Longest time one step's rollout may take before it ends with an error that names what it waited for."""
