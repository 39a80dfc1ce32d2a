"""agentmath eval: accuracy, tool use and what samples did, on held-out tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentmath.cli.errors import warn
from agentmath.cli.evaluation_table import print_tables
from agentmath.config.check import is_held_out
from agentmath.config.recipe import Recipe
from agentmath.config.telemetry import TelemetrySection
from agentmath.core.errors import ConfigError, Interrupted
from agentmath.core.types import JSON
from agentmath.orchestration.build import used_sources
from agentmath.orchestration.evaluating import EVALUATION, Evaluation, evaluate_all
from agentmath.orchestration.evaluator import is_checkpoint, open_evaluator
from agentmath.orchestration.exporting import export_evaluations
from agentmath.orchestration.subject import evaluation_recipe, weights_of_run
from agentmath.telemetry.run_dir import MODEL, holds_run, run_path


def run(
    recipe: Recipe, checkpoint: Path | None, json_out: bool, export: Path | None = None, run_dir: Path | None = None
) -> None:
    """Measure every held-out set; with json_out one JSON object is printed. run_dir: the run that is measured.

    Raises ConfigError when there is nothing to measure, or when checkpoint is no folder of weights.
    """
    if not any(is_held_out(source) for source in used_sources(recipe.data)):
        raise ConfigError("nothing to measure: no data source holds tasks out (data.NAME.held_out) or has role eval")
    if checkpoint is not None:
        refuse_run_folder(checkpoint)
    elif run_dir is not None and not recipe.endpoint.url:
        checkpoint = weights_of_run(run_dir)
    elif not recipe.model.path and not recipe.endpoint.url:
        warn(["the recipe's new model is measured, with random weights: give --checkpoint RUN/model"])
    restore = checkpoint if checkpoint is not None and is_checkpoint(checkpoint) else None
    measured = evaluation_recipe(recipe, None if restore is not None else checkpoint)
    if json_out and measured.telemetry.progress != "live" and not sys.stderr.isatty():
        # Whoever reads both streams as one is to find JSON and nothing else.
        measured = measured.model_copy(update={"telemetry": TelemetrySection(progress="off")})
    where = folder_of(recipe, checkpoint, run_dir)
    try:
        with open_evaluator(measured, restore=restore) as evaluator:
            warn(evaluator.pool.warnings)
            done = evaluate_all(evaluator, where)
    except KeyboardInterrupt as error:
        raise Interrupted(f"stopped by {error or 'Ctrl-C'}; the same command goes on where this one was") from error
    if export is not None:
        export_evaluations(done, measured, export)
    if json_out:
        print(json.dumps({_name(e, done): _brief(e) for e in done}, indent=2))
        return
    print_tables(done)
    if export is not None:
        print(f"exported: {export}")


def folder_of(recipe: Recipe, checkpoint: Path | None, run_dir: Path | None) -> Path:
    """Where results go: to the run that the weights come from, else to the recipe's own folder."""
    path = checkpoint.absolute() if checkpoint is not None else None
    found = run_dir or next((f for f in path.parents if holds_run(f)), None) if path else run_dir
    return (found or run_path(recipe.run)) / EVALUATION


def refuse_run_folder(checkpoint: Path) -> None:
    """Raise ConfigError for a run's folder or a checkpoint inside of it: weights to measure are exported ones."""
    path = checkpoint.absolute()
    run_dir = next((folder for folder in (path, *path.parents) if holds_run(folder)), None)
    if run_dir is None or path.is_file() or (path / "config.json").is_file():
        return
    model = run_dir / MODEL
    there = f"take {model}" if model.is_dir() else "the run has not ended, and has exported none"
    raise ConfigError(f"--checkpoint {checkpoint} holds no exported model: {there}")


def _name(evaluation: Evaluation, done: list[Evaluation]) -> str:
    """The set's name, with the mode where a set was measured in several."""
    alone = sum(e.set_name == evaluation.set_name for e in done) == 1
    return evaluation.set_name if alone else f"{evaluation.set_name}.{evaluation.mode}"


def _brief(evaluation: Evaluation) -> JSON:
    """Results without what would fill the screen."""
    long = ("problems", "recipe", "plan")
    return {k: v for k, v in evaluation.results.items() if k not in long} | {"path": str(evaluation.folder)}
