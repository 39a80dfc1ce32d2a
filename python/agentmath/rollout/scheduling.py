"""The scheduler of csrc/rollout, from a section of the recipe and from trajectories."""

from __future__ import annotations

import math

from agentmath._C import rollout as _rollout
from agentmath.config.rollout import RolloutSection
from agentmath.core.types import INFRASTRUCTURE_ENDS, NO_VERSION, StopReason, Trajectory

Scheduler = _rollout.Scheduler
State = _rollout.State

SAMPLES_PER_GROUP = 1 << 16
_MODES = {
    "batch": _rollout.Mode.BATCH,
    "segments": _rollout.Mode.SEGMENTS,
    "quota": _rollout.Mode.QUOTA,
    "async": _rollout.Mode.ASYNC,
}


def new_scheduler(section: RolloutSection) -> Scheduler:
    """A scheduler without trajectories, in the section's mode."""
    settings = _rollout.Settings()
    settings.mode = _MODES[section.mode]
    settings.groups_per_step = section.groups_per_step
    settings.groups_in_flight = groups_in_flight(section)
    settings.max_lag = section.max_staleness
    settings.max_rounds = section.max_refills + 1
    settings.kv_tokens = section.max_running_context_tokens
    return Scheduler(settings, budgets_of(section))


def groups_in_flight(section: RolloutSection) -> int:
    """Groups that quota and async keep begun and unfinished at a time, at least those of a step."""
    if section.mode == "async" and section.max_in_flight:
        wanted = math.ceil(section.max_in_flight / section.group_size)
    else:
        wanted = math.ceil(section.over_submission * section.groups_per_step)
    return max(wanted, section.groups_per_step)


def has_quota(section: RolloutSection) -> bool:
    """True where a step ends with groups unfinished and trains on just as many as it asks for."""
    return section.mode in ("quota", "async") and section.max_staleness > 0


def budgets_of(section: RolloutSection) -> _rollout.Budgets:
    """What one trajectory may use up."""
    budgets = _rollout.Budgets()
    budgets.sampled_tokens = section.max_sampled_tokens
    budgets.context_tokens = section.max_context_tokens
    budgets.tool_calls = section.max_tool_calls
    budgets.segments = section.max_segments
    budgets.segment_tokens = section.segment_sampled_tokens
    budgets.segment_calls = section.segment_tool_calls
    return budgets


def history_of(trajectory: Trajectory) -> _rollout.History:
    """What a trajectory has used up so far."""
    oldest = trajectory.oldest_version
    history = _rollout.History()
    history.context_tokens = trajectory.num_context_tokens
    history.sampled_tokens = trajectory.num_sampled_tokens
    history.tool_calls = trajectory.num_tool_calls
    history.segments = len(trajectory.segments)
    history.oldest_version = NO_VERSION if oldest is None else oldest
    return history


def outcome_of(stop_reason: StopReason | None) -> State:
    """What a finished trajectory came to, for the scheduler."""
    return State.FAILED if stop_reason in INFRASTRUCTURE_ENDS else State.DONE
