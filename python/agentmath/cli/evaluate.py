"""agentmath eval RECIPE: accuracy and tool use on held-out tasks."""

from __future__ import annotations

import json
from pathlib import Path

from agentmath.cli.errors import warn
from agentmath.config.check import is_held_out
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError
from agentmath.orchestration.build import open_parts, used_sources
from agentmath.orchestration.measure import describe, evaluate_sets
from agentmath.telemetry.run_dir import MODEL, holds_run


def run(recipe: Recipe, checkpoint: Path | None, json_out: bool) -> None:
    """Measure every held-out set; with json_out one JSON object is printed.

    Raises ConfigError when there is nothing to measure, or when checkpoint is no folder of weights.
    """
    if not any(is_held_out(source) for source in used_sources(recipe.data)):
        raise ConfigError("nothing to measure: no data source holds tasks out (data.NAME.held_out) or has role eval")
    if checkpoint is not None:
        refuse_run_folder(checkpoint)
    elif not recipe.model.path:
        warn(["the recipe's new model is measured, with random weights: give --checkpoint RUN/model"])
    with open_parts(recipe, model_path=checkpoint) as parts:
        warn(parts.pool.warnings)
        results = evaluate_sets(parts, purpose="eval")
    if json_out:
        print(json.dumps({name: result.as_json() for name, result in results.items()}, indent=2))
        return
    for result in results.values():
        print(describe("eval", result))


def refuse_run_folder(checkpoint: Path) -> None:
    """Raise ConfigError for a run's folder or a checkpoint inside of it: weights to measure are exported ones."""
    path = checkpoint.absolute()
    run_dir = next((folder for folder in (path, *path.parents) if holds_run(folder)), None)
    if run_dir is None or path.is_file() or (path / "config.json").is_file():
        return
    model = run_dir / MODEL
    there = f"take {model}" if model.is_dir() else "the run has not ended, and has exported none"
    raise ConfigError(f"--checkpoint {checkpoint} holds no exported model: {there}")
