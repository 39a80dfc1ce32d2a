"""What `agentmath eval` is pointed at: a recipe, the folder of a run, a model, or the address of a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentmath.cli.arguments import split_words
from agentmath.config.load import check_recipe, load_recipe, shipped_recipes
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError
from agentmath.telemetry.run_dir import RECIPE, holds_run

BENCHMARKS = "benchmarks"
"""The shipped recipe that measures whatever model it is given."""


def read_subject(words: Sequence[str], output_dir: str | None) -> tuple[Recipe, list[str], Path | None]:
    """The checked recipe, warnings about it, and the folder of the run that is measured if one is.

    Raises ConfigError.
    """
    name, overrides = split_words(words)
    if output_dir is not None:
        overrides += [f"--run.output_dir={output_dir}"]
    if name is None:
        raise ConfigError(
            "nothing to measure is named: give a recipe (`agentmath recipes`), the folder of a run, a model, or the "
            "address of a server"
        )
    recipe_name, given, run_dir = _resolve(name)
    recipe = load_recipe(recipe_name, [*given, *overrides])
    warnings = check_recipe(recipe)
    if run_dir is not None:
        # It was trained with these settings, and most of them say nothing about an evaluation.
        warnings = []
    return recipe, warnings, run_dir


def _resolve(name: str) -> tuple[str, list[str], Path | None]:
    """(recipe, overrides that name the model, run folder)."""
    path = Path(name).expanduser()
    if name.startswith(("http://", "https://")):
        return BENCHMARKS, [f"--endpoint.url={name}"], None
    if path.is_dir() and holds_run(path) and (path / RECIPE).is_file():
        return str(path / RECIPE), [], path
    if path.suffix == ".gguf" or (path.is_dir() and (path / "config.json").is_file()):
        return BENCHMARKS, [f"--model.path={path.absolute()}"], None
    is_recipe = name in shipped_recipes() or path.exists() or path.suffix == ".toml"
    if not is_recipe and name.count("/") == 1 and not name.startswith((".", "~", "/")):
        return BENCHMARKS, [f"--model.path={name}"], None
    return name, [], None
