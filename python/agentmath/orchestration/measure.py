"""Held-out accuracy in the course of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from agentmath.core.errors import EngineError
from agentmath.core.types import JSON, Group, StopReason
from agentmath.evaluation.evaluate import EvalResult, evaluate
from agentmath.orchestration.build import Parts
from agentmath.orchestration.saving import Run

StageName = Literal["start", "sft", "rl"]


def measure(run: Run, stage: StageName, say: Callable[[str], None]) -> None:
    """Evaluate every held-out set with the present weights; figures go to metrics.jsonl and into the run's state."""
    state = run.parts.state
    results = evaluate_sets(run.parts, purpose=f"eval-{stage}")
    for name, result in results.items():
        run.writer.write("eval", state.step, {"stage": stage, "set": name, **result.as_json()})
        say(describe(stage, result))
    entry: JSON = {"stage": stage, "step": state.step, "results": {n: r.as_json() for n, r in results.items()}}
    state.evaluations.append(entry)


def evaluate_sets(parts: Parts, *, purpose: str) -> dict[str, EvalResult]:
    """Figures of every held-out set, evaluation.num_tasks tasks each."""
    section = parts.recipe.evaluation
    # The last stage's, from the first evaluation on: figures of one run are to be comparable.
    budgets = parts.budgets[-1].model_copy(update={"segment_sampled_tokens": 0, "segment_tool_calls": 0})
    where = replace(parts.collector.stage, purpose=purpose, temperature=section.temperature, top_p=section.top_p)
    where = replace(where, section=budgets)
    results: dict[str, EvalResult] = {}
    for name, tasks in parts.pool.evaluation.items():
        chosen = tasks[: section.num_tasks]
        results[name], groups = parts.run(evaluate(name, chosen, where, score=parts.score, step=parts.state.step))
        refuse_dead_infrastructure(groups)
    return results


def describe(stage: str, result: EvalResult) -> str:
    """One line for a person."""
    failed = f", {result.num_failed} lost to the infrastructure" if result.num_failed else ""
    return (
        f"{stage:5} {result.name}: accuracy {result.accuracy:.3f} "
        f"[{result.accuracy_low:.3f}, {result.accuracy_high:.3f}] on {result.num_graded} held-out tasks, "
        f"tool use {result.tool_use:.2f}, {result.seconds:.1f} s{failed}"
    )


def refuse_dead_infrastructure(groups: Sequence[Group]) -> None:
    """Raise EngineError when not one trajectory survived: there is nothing to train on, and nothing was measured."""
    trajectories = [t for g in groups for t in g.trajectories]
    failed = [t for t in trajectories if t.stop_reason is StopReason.ERROR]
    if trajectories and len(failed) == len(trajectories):
        raise EngineError(
            f"all {len(failed)} trajectories were lost to the infrastructure; the first said: {failed[0].error}"
        )
