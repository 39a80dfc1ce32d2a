"""A whole run: supervised stage, the gate, reinforcement learning, figures before and after, report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from agentmath.core.errors import TrainingError
from agentmath.core.types import JSON
from agentmath.orchestration import loop, saving
from agentmath.orchestration.build import Parts
from agentmath.orchestration.measure import measure
from agentmath.orchestration.warmup import warm_up
from agentmath.telemetry.viewer import write_report

Say = Callable[[str], None]


def supervised(parts: Parts, say: Say) -> None:
    """Measure a model that comes trained, then run the supervised stage, unless the run is past it."""
    state, recipe = parts.state, parts.recipe
    if state.sft_finished:
        return
    if recipe.model.path and state.evaluation("start") is None:
        measure(parts, "start", say)
    if recipe.sft.steps:
        warm_up(parts, parts.sft_state)
        measure(parts, "sft", say)
    state.sft_finished = True
    saving.save_sft(parts, parts.sft_state)


def reinforce(parts: Parts, say: Say) -> None:
    """Check that the model can earn a reward, then run reinforcement learning."""
    if not parts.recipe.training.steps:
        return
    if parts.eval_sets and parts.state.step == 0:
        before = parts.state.evaluation("sft") or parts.state.evaluation("start")
        if before is None:
            measure(parts, "start", say)
            before = parts.state.evaluation("start")
        refuse_hopeless_start(before or {}, parts.recipe.training.min_start_accuracy)
    loop.train(parts)
    measure(parts, "rl", say)


def refuse_hopeless_start(before: JSON, least: float) -> None:
    """Raise TrainingError when the model is right so rarely that groups hold no right answer to learn from."""
    best = max((r["accuracy"] for r in before["results"].values()), default=0.0)
    if best < least:
        raise TrainingError(
            f"reinforcement learning does not start: held-out accuracy is {best:.3f}, "
            f"training.min_start_accuracy is {least:g}. From so low a base almost every group is all wrong and there is "
            "no reward to learn from: train longer under supervision (sft.steps), take easier tasks or a stronger model"
        )


def finish(parts: Parts) -> JSON:
    """Write summary.json and the report; returns the summary."""
    state = parts.state
    before = state.evaluation("sft") or state.evaluation("start")
    after = state.evaluation("rl") or before
    main = next(iter(parts.eval_sets), None)
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
    write_atomically(parts.directory.summary, json.dumps(summary, indent=2) + "\n")
    write_report(parts.directory.path)
    return summary


def write_atomically(path: Path, text: str) -> None:
    """The file is the old one or the new one, never half of either."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def _figure(evaluation: JSON | None, name: str | None, figure: str) -> float | None:
    if evaluation is None or name is None:
        return None
    return evaluation["results"][name][figure]
