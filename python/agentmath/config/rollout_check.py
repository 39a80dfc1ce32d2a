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


def rollout_warnings(rollout: RolloutSection) -> Iterator[str]:
    """One sentence for each setting that hardly means what it says."""
    if rollout.mode in ("quota", "async") and not rollout.max_staleness:
        yield (
            f'rollout.mode = "{rollout.mode}" is the same as "batch" here: with rollout.max_staleness = 0 nothing that '
            "is unfinished could be trained on later"
        )
    if rollout.mode != "segments":
        return
    if not any(getattr(rollout, bound) for bound in _SEGMENT_BOUNDS):
        yield (
            'rollout.mode = "segments" is the same as "batch" here: give rollout.segment_sampled_tokens or '
            "rollout.segment_tool_calls, the bounds of a pass"
        )
        return
    for bound, total in zip(_SEGMENT_BOUNDS, ("max_sampled_tokens", "max_tool_calls"), strict=True):
        limit, most = getattr(rollout, bound), getattr(rollout, total)
        if limit >= most > 0:
            yield f"rollout.{bound} = {limit} has no effect: a whole trajectory has at most {total} = {most}"
    if rollout.max_segments - 1 > rollout.max_staleness:
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
    if rollout.mode not in ("quota", "async"):
        yield ["over_submission"], f'rollout.mode = "{rollout.mode}" begins just as many groups as it trains on'
    if rollout.mode != "async":
        yield ["max_in_flight"], 'only rollout.mode = "async" reads it'
    elif rollout.max_in_flight:
        yield ["over_submission"], f"rollout.max_in_flight = {rollout.max_in_flight} says how many are under way"
    if not algorithm.dynamic_sampling:
        yield ["max_refills"], "without dynamic sampling no group is dropped"
