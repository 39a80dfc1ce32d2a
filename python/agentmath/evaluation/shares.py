"""What a sample did, as yes or no: each becomes a share of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentmath.core.types import StopReason, ToolStatus, Trajectory
from agentmath.formats.faults import Fault

_BEGUN = frozenset({Fault.UNCLOSED_CODE, Fault.EMPTY_PROGRAM, Fault.MALFORMED_CALL})


def used_tool(trajectory: Trajectory) -> bool:
    """At least one program was run."""
    return trajectory.num_tool_calls > 0


def has_no_block(trajectory: Trajectory) -> bool:
    """No program was begun: none run, none refused, none left open."""
    return not any(t.call is not None for t in trajectory.turns) and _BEGUN.isdisjoint(trajectory.faults)


def has_failed_block(trajectory: Trajectory) -> bool:
    """At least one program that was run did not end well."""
    return any(ok is False for ok in _outcomes(trajectory))


def is_repaired(trajectory: Trajectory) -> bool:
    """A program that failed was followed by one that ran through: the model corrected itself."""
    outcomes = _outcomes(trajectory)
    return False in outcomes and True in outcomes[outcomes.index(False) :]


def has_invented_output(trajectory: Trajectory) -> bool:
    """The model began to write a tool's output itself; it was cut there."""
    return any(t.stop_reason is StopReason.INVENTED_OUTPUT for t in trajectory.turns)


def is_cut_by_length(trajectory: Trajectory) -> bool:
    """A token budget ended it."""
    return trajectory.stop_reason is StopReason.LENGTH


def had_call_refused(trajectory: Trajectory) -> bool:
    """It ended at a call beyond rollout.max_tool_calls; in mode r_only, at its first call."""
    return trajectory.stop_reason is StopReason.MAX_TOOL_CALLS


def has_no_answer(trajectory: Trajectory) -> bool:
    """No final answer was found in it."""
    return trajectory.reward is not None and trajectory.reward.extracted is None


SHARES: Mapping[str, Callable[[Trajectory], bool]] = {
    "tool_use": used_tool,
    "no_block": has_no_block,
    "failed_block": has_failed_block,
    "repaired_block": is_repaired,
    "invented_output": has_invented_output,
    "cut_by_length": is_cut_by_length,
    "refused_call": had_call_refused,
    "no_answer": has_no_answer,
}


def tool_seconds(trajectory: Trajectory) -> float:
    """Wall time of its programs."""
    return sum(t.result.wall_seconds for t in trajectory.turns if t.result is not None)


MEANS: Mapping[str, Callable[[Trajectory], float]] = {
    "tool_calls": lambda t: float(t.num_tool_calls),
    "sampled_tokens": lambda t: float(t.num_sampled_tokens),
    "context_tokens": lambda t: float(t.num_context_tokens),
}
"""Numbers of a sample whose means are reported."""


def _outcomes(trajectory: Trajectory) -> list[bool]:
    return [t.result.status is ToolStatus.OK for t in trajectory.turns if t.result is not None]
