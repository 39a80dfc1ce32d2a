"""What stands on the command line besides options: RECIPE and --section.key VALUE, in any order."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from agentmath.config.load import check_recipe, load_recipe
from agentmath.config.overrides import parse_overrides
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError
from agentmath.telemetry.run_dir import RECIPE, holds_run, missing_run, run_path

_OPTIONS = ("--dry-run", "--resume", "--output-dir", "--checkpoint", "--export", "--json", "--help")


def split_words(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The recipe, if one is named, and the overrides. Raises ConfigError for a second recipe and unknown options."""
    recipes: list[str] = []
    overrides: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("--"):
            recipes.append(word)
            continue
        option = word.partition("=")[0]
        if option in _OPTIONS:
            raise ConfigError(f"this command has no option {option}")
        near = [] if "." in option else difflib.get_close_matches(option, _OPTIONS, n=1, cutoff=0.8)
        if near:
            raise ConfigError(f"unknown option {word}; did you mean {near[0]}?")
        overrides.append(word)
        if "=" not in word and remaining and not remaining[0].startswith("--"):
            overrides.append(remaining.pop(0))
    parse_overrides(overrides)
    if len(recipes) > 1:
        raise ConfigError(f"one recipe is expected, not {len(recipes)}: {' '.join(recipes)}")
    return (recipes[0] if recipes else None), overrides


def read_recipe(
    words: Sequence[str], output_dir: str | None, *, run_dir: Path | None = None
) -> tuple[Recipe, list[str]]:
    """The checked recipe that the command line means, and warnings about it.

    Without a recipe's name, that of run_dir is meant. Raises ConfigError.
    """
    name, overrides = split_words(words)
    if output_dir is not None:
        overrides += [f"--run.output_dir={output_dir}"]
    if name is None:
        if run_dir is None:
            raise ConfigError("no recipe given; `agentmath recipes` lists those that come with the package")
        name = str(run_dir / RECIPE)
    recipe = load_recipe(name, overrides)
    return recipe, check_recipe(recipe)


def existing_run(given: str) -> Path:
    """The run directory after --resume. Raises ConfigError when no run is there."""
    path = Path(given).expanduser()
    if not holds_run(path):
        hint = "" if "/" in given else f" To go on with the own run of recipe {given!r}, write: {given} --resume"
        raise ConfigError(f"--resume {given}: {missing_run(path)}{hint}")
    return path


def own_run(recipe: Recipe) -> Path:
    """The run directory that belongs to a recipe. Raises ConfigError when no run is there yet."""
    path = run_path(recipe.run)
    if not holds_run(path):
        raise ConfigError(f"--resume: there is no run to go on with: {missing_run(path)}")
    return path
