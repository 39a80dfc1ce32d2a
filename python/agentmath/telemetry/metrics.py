"""The numbers that describe a step's trajectories; the progress display and the report know them by these names.

    reward                  mean total                  reward/PART     mean of a part, 0 where it does not apply
    accuracy                share that is right         mixed_groups    share of groups with right and wrong samples
    tool_calls              mean N                      tool_use        share with N > 0
    tool_ok                 share of calls that ran through
    sampled_tokens          mean generated length       context_tokens  mean context length
    truncated               share ended by a budget     stop/REASON     share per stop reason
    segments                mean number of passes       trajectories, groups    how many

The trainer's own numbers stand beside them: loss, entropy, clip_fraction_low, mismatch_mean, grad_norm, ...,
tokens_per_second, seconds/STAGE; in supervised training loss and held_out_loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from agentmath.core.types import Group, StopReason, ToolStatus, Trajectory

TRUNCATED = (StopReason.LENGTH, StopReason.MAX_TOOL_CALLS)


def group_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Means over the scored trajectories of groups; what has no value (no trajectory, no call) is absent."""
    scored = [t for g in groups for t in g.trajectories if t.reward is not None]
    metrics: dict[str, float] = {"groups": float(len(groups)), "trajectories": float(len(scored))}
    if not scored:
        return metrics
    metrics |= _reward_metrics(scored)
    accuracies = [[t.reward.accuracy for t in g.trajectories if t.reward is not None] for g in groups]
    metrics["mixed_groups"] = float(np.mean([len(set(a)) > 1 for a in accuracies if a]))
    calls = [t.num_tool_calls for t in scored]
    metrics["tool_calls"] = float(np.mean(calls))
    metrics["tool_use"] = float(np.mean([n > 0 for n in calls]))
    statuses = [turn.result.status for t in scored for turn in t.turns if turn.result is not None]
    if statuses:
        metrics["tool_ok"] = statuses.count(ToolStatus.OK) / len(statuses)
    metrics["sampled_tokens"] = float(np.mean([t.num_sampled_tokens for t in scored]))
    metrics["context_tokens"] = float(np.mean([t.num_context_tokens for t in scored]))
    metrics["segments"] = float(np.mean([len(t.segments) for t in scored]))
    metrics["truncated"] = float(np.mean([t.stop_reason in TRUNCATED for t in scored]))
    stops = Counter(t.stop_reason.value for t in scored if t.stop_reason is not None)
    faults = Counter(fault for t in scored for fault in set(t.faults))
    named = {**{f"stop/{name}": n for name, n in stops.items()}, **{f"fault/{name}": n for name, n in faults.items()}}
    return metrics | {name: count / len(scored) for name, count in sorted(named.items())}


def _reward_metrics(scored: Sequence[Trajectory]) -> dict[str, float]:
    rewards = [t.reward for t in scored if t.reward is not None]
    parts = sorted({name for r in rewards for name in r.parts})
    means = {f"reward/{name}": float(np.mean([r.parts.get(name, 0.0) for r in rewards])) for name in parts}
    return {
        "reward": float(np.mean([r.total for r in rewards])),
        "accuracy": float(np.mean([r.accuracy for r in rewards])),
        **means,
    }
