"""Held-out accuracy in the course of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from agentmath.core.types import JSON
from agentmath.evaluation.evaluate import EvalResult, evaluate
from agentmath.orchestration.build import Parts

StageName = Literal["start", "sft", "rl"]


def measure(parts: Parts, stage: StageName, say: Callable[[str], None]) -> dict[str, EvalResult]:
    """Evaluate every held-out set with the present weights; figures go to metrics.jsonl and into the run's state."""
    section = parts.recipe.evaluation
    where = replace(
        parts.collector.stage, purpose=f"eval-{stage}", temperature=section.temperature, section=parts.eval_section
    )
    results: dict[str, EvalResult] = {}
    for name, tasks in parts.eval_sets.items():
        result, _ = parts.run(
            evaluate(name, tasks[: section.num_tasks], where, score=parts.score, step=parts.state.step)
        )
        results[name] = result
        parts.writer.write("eval", parts.state.step, {"stage": stage, "set": name, **result.as_json()})
        say(describe(stage, result))
    entry: JSON = {"stage": stage, "step": parts.state.step, "results": {n: r.as_json() for n, r in results.items()}}
    parts.state.evaluations.append(entry)
    return results


def describe(stage: str, result: EvalResult) -> str:
    """One line for a person."""
    failed = f", {result.num_failed} lost to the infrastructure" if result.num_failed else ""
    return (
        f"{stage:5} {result.name}: accuracy {result.accuracy:.3f} "
        f"[{result.accuracy_low:.3f}, {result.accuracy_high:.3f}] on {result.num_graded} held-out tasks, "
        f"tool use {result.tool_use:.2f}, {result.seconds:.1f} s{failed}"
    )
