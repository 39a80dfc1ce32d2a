"""The C++ scheduler as trajectories see it: records in, verdicts out, on a clock that is handed in.

What may run, and when, is decided in csrc/rollout/scheduler.h; nothing is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from agentmath._C import rollout
from agentmath.config.curriculum import CurriculumSection
from agentmath.config.rollout import RolloutSection
from agentmath.core.errors import ConfigError
from agentmath.core.types import NO_VERSION, Completion, Group, StopReason, Tokens, Trajectory, Turn

SAMPLE_BITS = 16
GRANTS_AT_ONCE = 256
_REASONS = {
    rollout.Reason.LENGTH: StopReason.LENGTH,
    rollout.Reason.OVERDUE: StopReason.LENGTH,
    rollout.Reason.MAX_TOOL_CALLS: StopReason.MAX_TOOL_CALLS,
    rollout.Reason.LOST: StopReason.ERROR,
    rollout.Reason.LATE: StopReason.ERROR,
    rollout.Reason.CANCELLED: StopReason.ABORTED,
}
"""How a trajectory ends that did not say so itself."""


class Lengths(NamedTuple):
    """Tokens of a trajectory."""

    context: int
    sampled: int

    @staticmethod
    def of(prompt: Tokens, turns: Iterable[Turn]) -> Lengths:
        """What budgets are about, and what length penalties are about."""
        context, sampled = len(prompt), 0
        for turn in turns:
            context += len(turn.tokens)
            sampled += int(np.count_nonzero(turn.tokens.trainable))
        return Lengths(context, sampled)


def trajectory_id(ordinal: int, sample_index: int) -> int:
    """The scheduler's name of a trajectory, and the engine's; sorting by it sorts by task, then by sample."""
    return (ordinal << SAMPLE_BITS) | sample_index


def settings_of(stages: Sequence[RolloutSection], curriculum: CurriculumSection) -> rollout.Settings:
    """What [rollout], as it stands in each stage, and [curriculum] amount to."""
    section, settings = stages[0], rollout.Settings()
    settings.mode = rollout.Mode[section.mode.upper()]
    settings.overdue = rollout.Overdue[section.overdue.upper()]
    settings.stages = [_budgets(stage) for stage in stages]
    settings.truncation_rate, settings.window_steps = curriculum.truncation_rate, curriculum.window_steps
    settings.groups_per_step, settings.group_size = section.groups_per_step, section.group_size
    settings.segment_sampled_tokens = section.segment_sampled_tokens
    settings.segment_tool_calls = section.segment_tool_calls
    settings.over_submission, settings.max_in_flight = section.over_submission, section.max_in_flight
    settings.max_lag, settings.max_retries = section.max_staleness, section.max_retries
    settings.kv_budget_tokens = section.max_running_context_tokens
    return settings


def one_pass_of(section: RolloutSection) -> rollout.Settings:
    """Settings under which each of some trajectories makes one pass, whatever the mode of training is."""
    settings = settings_of([section], CurriculumSection())
    settings.mode = rollout.Mode.SEGMENTS
    return settings


def _budgets(section: RolloutSection) -> rollout.Budgets:
    budgets = rollout.Budgets()
    budgets.max_sampled_tokens, budgets.max_context_tokens = section.max_sampled_tokens, section.max_context_tokens
    budgets.max_tool_calls, budgets.max_segments = section.max_tool_calls, section.max_segments
    return budgets


def stop_reason(
    reason: rollout.Reason, action: rollout.Action = rollout.Action.END, *, said: StopReason | None = None
) -> StopReason | None:
    """How a trajectory stands after a verdict; `said` is the end that its own words came to. None: it goes on."""
    if action in (rollout.Action.GENERATE, rollout.Action.CALL):
        return None
    if action in (rollout.Action.PARK, rollout.Action.QUEUE):
        return StopReason.SEGMENT
    if action is rollout.Action.IGNORE:
        return StopReason.ABORTED
    return said if reason is rollout.Reason.FINISHED else _REASONS[reason]


class Scheduler:
    """One rollout.Scheduler. Its methods are called on the event loop; on_change is called whenever there may be
    something new to decide, unless the wake-up descriptor is watched instead."""

    def __init__(self, settings: rollout.Settings, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """clock: nanoseconds. Raises ConfigError for settings that cannot be."""
        try:
            self.core = rollout.Scheduler(settings)
        except ValueError as error:
            raise ConfigError(f"the rollouts cannot be scheduled: {error}") from error
        self.on_change: Callable[[], None] | None = None
        self._clock = clock

    def begin_round(self, wanted: int, *, version: int) -> None:
        """The trainer wants so many groups, and trains on them at weights `version`."""
        self.core.set_version(version, self._clock())
        self.core.begin_round(wanted, self._clock())

    def submit(self, group: Group) -> None:
        """Hand over a group of new trajectories."""
        num_samples = len(group.trajectories)
        self.core.submit(group.ordinal, len(group.trajectories[0].prompt), num_samples, self._clock())

    def submit_alone(self, name: int, trajectory: Trajectory) -> int:
        """Hand over a trajectory, with all that it has behind it, as a group of this name; returns its id."""
        self.core.submit(name, len(trajectory.prompt), 1, self._clock())
        versions = [int(v) for t in trajectory.turns for v in t.tokens.versions[t.tokens.trainable]]
        self.core.resume(
            trajectory_id(name, 0),
            context_tokens=trajectory.num_context_tokens,
            sampled_tokens=trajectory.num_sampled_tokens,
            num_tool_calls=trajectory.num_tool_calls,
            num_segments=len(trajectory.segments),
            oldest_version=min(versions, default=NO_VERSION),
            newest_version=max(versions, default=NO_VERSION),
        )
        return trajectory_id(name, 0)

    def decide(self) -> rollout.Decisions:
        """What is to be done; grants come in portions, so that the interpreter is never held for long."""
        return self.core.decide(self._clock(), GRANTS_AT_ONCE)

    def interrupt(self) -> list[int]:
        """Park all that waits, and what runs at its next report; returns the ids of the latter."""
        return self.core.interrupt(self._clock())

    def generated(
        self, ticket: int, lengths: Lengths, completion: Completion, outcome: rollout.Outcome
    ) -> rollout.Verdict:
        """A request came back. lengths: of the trajectory with what was kept of it; completion: of this request."""
        oldest = int(completion.versions.min()) if len(completion.versions) else NO_VERSION
        newest = int(completion.versions.max()) if len(completion.versions) else NO_VERSION
        now = self._clock()
        return self._told(self.core.generated(ticket, *lengths, len(completion.ids), oldest, newest, outcome, now))

    def answered(self, ticket: int, lengths: Lengths) -> rollout.Verdict:
        """A tool's result is in the trajectory."""
        return self._told(self.core.answered(ticket, *lengths, self._clock()))

    def lost(self, ticket: int, lengths: Lengths) -> rollout.Verdict:
        """Engine or tool failed; lengths are of what is left."""
        return self._told(self.core.lost(ticket, *lengths, False, self._clock()))

    def dump(self) -> str:
        """All of it as JSON, for a person who asks what is waited for."""
        return self.core.dump(self._clock())

    def _told(self, verdict: rollout.Verdict) -> rollout.Verdict:
        if verdict.needs_decision and self.on_change is not None:
            self.on_change()
        return verdict
