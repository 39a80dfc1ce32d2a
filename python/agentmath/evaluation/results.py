"""results.json: everything that an evaluation found, with all that is needed to find it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentmath.core.types import JSON, Group, Task
from agentmath.evaluation.bootstrap import mean_over_problems
from agentmath.evaluation.figures import Figures, breakdown, figures, num_right, problem_rows
from agentmath.evaluation.intervals import wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What figures are to be read with."""

    name: str
    plan: JSON
    model: JSON
    recipe: str
    """TOML text of the resolved recipe."""
    command: str
    """The one command that measures this again."""
    versions: Mapping[str, str]
    seconds: float
    requests: Mapping[str, int]
    bands: Mapping[str, str] | None
    """Band of each task, by its id."""


def results_of(groups: Sequence[Group], context: Context, *, num_samples: int, seed: int) -> JSON:
    """The record of finished, scored groups. Its first keys are those that a run's own evaluations have."""
    whole = figures(groups, num_samples=num_samples, seed=seed)
    accuracy = whole.estimates[f"avg@{num_samples}"]
    drawn = whole.num_graded + whole.num_failed
    found: JSON = {
        "format": 1,
        "name": context.plan["set"],
        "mode": context.plan["mode"],
        "folder": context.name,
        "num_samples": num_samples,
        "num_problems": whole.num_problems,
        "num_graded": whole.num_graded,
        "num_failed": whole.num_failed,
        "accuracy": accuracy.value,
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "tool_use": whole.shares["tool_use"].value,
        "tool_calls_mean": whole.means["tool_calls"].value,
        "sampled_tokens_mean": whole.means["sampled_tokens"].value,
        "truncated": whole.shares["cut_by_length"].value,
        "seconds": round(context.seconds, 3),
        "seconds_per_problem": round(context.seconds / max(len(groups), 1), 4),
        "seconds_per_sample": round(context.seconds / max(drawn, 1), 4),
        "requests": dict(context.requests),
        **{key: value for key, value in whole.as_json().items() if not key.startswith("num_")},
        "by": _breakdowns(groups, context.bands, num_samples, seed),
        "model": context.model,
        "plan": context.plan,
        "versions": dict(context.versions),
        "reproduce": context.command,
        "recipe": context.recipe,
        "problems": problem_rows(groups),
    }
    return found


def _breakdowns(groups: Sequence[Group], bands: Mapping[str, str] | None, num_samples: int, seed: int) -> JSON:
    """Figures by level, by subject and by band, as far as tasks have them."""

    def level(task: Task) -> str | None:
        return None if task.difficulty is None else f"{task.difficulty:g}"

    labels = {
        "level": level,
        "subject": lambda task: task.subject or None,
        "band": lambda task: bands.get(task.id) if bands else None,
    }
    found: dict[str, dict[str, Figures]] = {
        kind: breakdown(groups, label, num_samples=num_samples, seed=seed) for kind, label in labels.items()
    }
    return {kind: {name: f.as_json() for name, f in parts.items()} for kind, parts in found.items() if parts}


def paired_difference(
    groups: Sequence[Group], others: Sequence[Group], bands: Mapping[str, str] | None, *, seed: int
) -> JSON:
    """Mean difference of the share of right samples, problem by problem, with its interval; in all, and by band."""
    rates = [(a.task.id, _rate(a), _rate(b)) for a, b in zip(groups, others, strict=True)]
    pairs = [(name, x - y) for name, x, y in rates if x is not None and y is not None]

    def over(chosen: Sequence[float]) -> JSON | None:
        estimate = mean_over_problems(chosen, seed=seed, is_share=False)
        if estimate is None:
            return None
        if len(set(chosen)) == 1:
            # Equal everywhere is no certainty: as many other problems as Wilson's bound allows may differ by 1.
            reach = wilson(0, len(chosen))[1]
            low, high = max(estimate.value - reach, -1.0), min(estimate.value + reach, 1.0)
            estimate = replace(estimate, low=low, high=high)
        return estimate.as_json()

    found: JSON = {"all": over([gap for _, gap in pairs])}
    if bands:
        names = dict.fromkeys(bands[name] for name, _ in pairs if name in bands)
        found["by_band"] = {b: over([gap for name, gap in pairs if bands.get(name) == b]) for b in names}
    return found


def _rate(group: Group) -> float | None:
    num_graded = sum(t.reward is not None for t in group.trajectories)
    return num_right(group.trajectories) / num_graded if num_graded else None
