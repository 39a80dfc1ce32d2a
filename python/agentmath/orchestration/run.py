"""A whole run: supervised stage, the gate, reinforcement learning, figures before and after, report."""

from __future__ import annotations

import json
from collections.abc import Callable

from agentmath.core.errors import TrainingError
from agentmath.core.types import JSON
from agentmath.orchestration import loop
from agentmath.orchestration.measure import measure
from agentmath.orchestration.saving import Run, save_sft
from agentmath.orchestration.warmup import warm_up
from agentmath.telemetry.run_dir import MODEL, write_atomically
from agentmath.telemetry.viewer import write_report
from agentmath.training.policy import export_hf

Say = Callable[[str], None]


def supervised(run: Run, say: Say) -> None:
    """Measure a model that comes trained, then run the supervised stage, unless the run is past it."""
    state, recipe = run.parts.state, run.parts.recipe
    if state.sft_finished:
        return
    if recipe.model.path and state.evaluation("start") is None:
        measure(run, "start", say)
    if recipe.sft.steps:
        warm_up(run)
        measure(run, "sft", say)
    state.sft_finished = True
    save_sft(run)


def reinforce(run: Run, say: Say) -> None:
    """Check that the model can earn a reward, then run reinforcement learning."""
    state, training = run.parts.state, run.parts.recipe.training
    if not training.steps:
        return
    if run.parts.pool.evaluation and state.step == 0:
        if not state.evaluations:
            measure(run, "start", say)
        refuse_hopeless_start(state.evaluations[-1], training.min_start_accuracy)
    loop.train(run)
    if not any(e["stage"] == "rl" and e["step"] == state.step for e in state.evaluations):
        measure(run, "rl", say)


def refuse_hopeless_start(before: JSON, least: float) -> None:
    """Raise TrainingError when the model is right so rarely that groups hold no right answer to learn from."""
    best = max((r["accuracy"] for r in before["results"].values()), default=0.0)
    if best < least:
        raise TrainingError(
            f"reinforcement learning does not start: held-out accuracy is {best:.3f}, "
            f"training.min_start_accuracy is {least:g}. From so low a base almost every group is all wrong and there "
            "is no reward to learn from: train longer under supervision (sft.steps), or take easier tasks"
        )


def finish(run: Run) -> JSON:
    """Export the model, write summary.json and the report; returns the summary."""
    parts, state = run.parts, run.parts.state
    before = state.evaluation("sft") or state.evaluation("start")
    after = state.evaluation("rl") or before
    main = next(iter(parts.pool.evaluation), None)
    summary: JSON = {
        "accuracy_before": _figure(before, main, "accuracy"),
        "accuracy_after": _figure(after, main, "accuracy"),
        "tool_use_before": _figure(before, main, "tool_use"),
        "tool_use_after": _figure(after, main, "tool_use"),
        "train_seconds": round(state.train_seconds + state.sft_seconds, 3),
        "tokens_per_second": round(state.num_tokens / state.train_seconds, 1) if state.train_seconds else None,
        "seed": parts.recipe.run.seed,
        "steps": state.step,
        "sft_steps": state.sft_step,
        "evaluations": state.evaluations,
    }
    export_hf(parts.policy, run.directory.path / MODEL)
    write_atomically(run.directory.summary, json.dumps(summary, indent=2) + "\n")
    write_report(run.directory.path)
    return summary


def _figure(evaluation: JSON | None, name: str | None, figure: str) -> float | None:
    if evaluation is None or name is None:
        return None
    return evaluation["results"][name][figure]
