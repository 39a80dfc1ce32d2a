"""From graded samples to figures with intervals: of a whole set, of each level, of each band."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentmath.core.types import JSON, Group, Task, Trajectory
from agentmath.evaluation.bootstrap import Estimate, mean_over_problems
from agentmath.evaluation.estimators import avg_at, maj_at, pass_at, sizes_of
from agentmath.evaluation.shares import MEANS, SHARES, has_failed_block, is_repaired, tool_seconds
from agentmath.evaluation.votes import RIGHT, votes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the samples of some problems come to. Every mean is over problems first; what does not apply is absent."""

    num_problems: int
    """Problems with at least one graded sample."""
    num_graded: int
    num_failed: int
    """Samples lost to infrastructure failures: not graded, in no figure."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    """avg@n, pass@k, maj@k. A problem that lost samples to failures enters those k that it still has samples for."""
    shares: Mapping[str, Estimate] = field(default_factory=dict)
    means: Mapping[str, Estimate] = field(default_factory=dict)
    tool_seconds: float = 0.0
    """Mean wall time of programs, per sample: a clock's figure, without an interval."""

    def as_json(self) -> JSON:
        return {
            "num_problems": self.num_problems,
            "num_graded": self.num_graded,
            "num_failed": self.num_failed,
            **{
                kind: {name: e.as_json() for name, e in getattr(self, kind).items()}
                for kind in ("estimates", "shares", "means")
            },
            "tool_seconds": self.tool_seconds,
        }


def figures(groups: Sequence[Group], *, num_samples: int, seed: int = 0) -> Figures:
    """Figures of finished, scored groups of num_samples each; seed is the bootstrap's."""
    graded = [[t for t in g.trajectories if t.reward is not None] for g in groups]
    kept = [samples for samples in graded if samples]

    def over(values: Sequence[float], is_share: bool = True) -> Estimate | None:
        return mean_over_problems(values, seed=seed, is_share=is_share)

    shares: dict[str, Estimate | None] = {
        name: over([_mean(samples, holds) for samples in kept]) for name, holds in SHARES.items()
    }
    broken = [found for samples in kept if (found := [t for t in samples if has_failed_block(t)])]
    shares["repaired_of_failed"] = over([_mean(samples, is_repaired) for samples in broken])
    means = {name: over([_mean(samples, of) for samples in kept], False) for name, of in MEANS.items()}
    num_graded = sum(map(len, kept))
    return Figures(
        num_problems=len(kept),
        num_graded=num_graded,
        num_failed=sum(len(g.trajectories) for g in groups) - num_graded,
        estimates=_present(_estimates(kept, num_samples, over)),
        shares=_present(shares),
        means=_present(means),
        tool_seconds=sum(tool_seconds(t) for samples in kept for t in samples) / num_graded if num_graded else 0.0,
    )


def _estimates(
    kept: Sequence[Sequence[Trajectory]], num_samples: int, over: Callable[[Sequence[float]], Estimate | None]
) -> dict[str, Estimate | None]:
    found = {f"avg@{num_samples}": over([avg_at(num_right(s), len(s)) for s in kept])}
    votes = [votes_of(samples) for samples in kept]
    for k in sizes_of(num_samples):
        found[f"pass@{k}"] = over([pass_at(k, num_right(s), len(s)) for s in kept if len(s) >= k])
    for k in sizes_of(num_samples)[2 if num_samples > 2 else 1 :]:
        found[f"maj@{k}"] = over([maj_at(k, v, RIGHT) for v in votes if len(v) >= k])
    return found


def num_right(samples: Sequence[Trajectory]) -> int:
    """Samples whose answer is right."""
    return sum(t.reward is not None and t.reward.accuracy == 1.0 for t in samples)


def breakdown(
    groups: Sequence[Group], label: Callable[[Task], str | None], *, num_samples: int, seed: int = 0
) -> dict[str, Figures]:
    """Figures of the problems of each label, in order of labels; problems without one are left out."""
    parts: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if (name := label(group.task)) is not None:
            parts[name].append(group)
    return {name: figures(parts[name], num_samples=num_samples, seed=seed) for name in sorted(parts, key=_order)}


def problem_rows(groups: Sequence[Group]) -> list[JSON]:
    """One line a problem: what an evaluation is compared and banded by."""
    return [
        {
            "id": g.task.id,
            "gold": g.task.answer,
            "difficulty": g.task.difficulty,
            "subject": g.task.subject,
            "num_graded": sum(t.reward is not None for t in g.trajectories),
            "num_right": num_right(g.trajectories),
        }
        for g in groups
    ]


def _mean(samples: Sequence[Trajectory], of: Callable[[Trajectory], float]) -> float:
    return sum(map(of, samples)) / len(samples)


def _present(found: Mapping[str, Estimate | None]) -> dict[str, Estimate]:
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _order(label: str) -> tuple[float, str]:
    """Numbers by size, words behind them."""
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label
