"""What must hold between the settings of [rollout], and which of them have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from agentmath.config.algorithm import AlgorithmSection
from agentmath.config.rollout import RolloutSection

_SEGMENT_BOUNDS = ("segment_sampled_tokens", "segment_tool_calls")


def rollout_faults(rollout: RolloutSection) -> Iterator[str]:
    """One sentence for each combination that cannot work."""
    if rollout.min_survivors > rollout.group_size:
        yield (
            f"rollout.min_survivors = {rollout.min_survivors} is more than a group has "
            f"(rollout.group_size = {rollout.group_size}): every group would be dropped"
        )
    if 0 < rollout.max_running_context_tokens < rollout.max_context_tokens:
        yield (
            f"rollout.max_running_context_tokens = {rollout.max_running_context_tokens} is less than one trajectory "
            f"may take (rollout.max_context_tokens = {rollout.max_context_tokens}): raise the one or lower the other"
        )


def rollout_warnings(rollout: RolloutSection) -> Iterator[str]:
    """One sentence for each setting that hardly means what it says."""
    if rollout.mode in ("quota", "async") and not rollout.max_staleness:
        yield (
            f'rollout.mode = "{rollout.mode}" is the same as "batch" here: with rollout.max_staleness = 0 nothing that '
            "is unfinished could be trained on later"
        )
    if rollout.mode != "segments":
        return
    for bound, total in zip(_SEGMENT_BOUNDS, ("max_sampled_tokens", "max_tool_calls"), strict=True):
        limit, most = getattr(rollout, bound), getattr(rollout, total)
        if limit >= most > 0:
            yield f"rollout.{bound} = {limit} has no effect: a whole trajectory has at most {total} = {most}"
    is_bounded = any(getattr(rollout, bound) for bound in _SEGMENT_BOUNDS)
    if is_bounded and rollout.max_segments - 1 > rollout.max_staleness:
        yield (
            f"a trajectory of rollout.max_segments = {rollout.max_segments} passes is {rollout.max_segments - 1} "
            f"versions old when it ends and is dropped: rollout.max_staleness = {rollout.max_staleness}"
        )


def idle_rollout_keys(rollout: RolloutSection, algorithm: AlgorithmSection) -> Iterator[tuple[list[str], str]]:
    """(keys of [rollout], why nothing reads them)."""
    if rollout.mode != "segments":
        yield [*_SEGMENT_BOUNDS, "max_segments"], f'rollout.mode = "{rollout.mode}" bounds no pass'
    elif not any(getattr(rollout, bound) for bound in _SEGMENT_BOUNDS):
        yield ["max_segments"], "segments have no bound, so there is only one"
    if rollout.mode != "quota":
        yield ["over_submission"], 'only rollout.mode = "quota" reads it'
    elif not rollout.max_staleness:
        yield ["over_submission"], "with rollout.max_staleness = 0 a step begins what it trains on"
    if rollout.mode != "async":
        yield ["max_in_flight"], 'only rollout.mode = "async" reads it'
    if rollout.mode not in ("quota", "async"):
        yield ["overdue"], f'in rollout.mode = "{rollout.mode}" no step is over before all that it waits for'
    if not algorithm.dynamic_sampling:
        yield ["max_refills"], "without dynamic sampling no group is dropped"
