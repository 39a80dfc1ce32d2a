"""agentmath sft RECIPE: the supervised stage alone."""

from __future__ import annotations

from pathlib import Path

from agentmath.cli.rl import closing_words
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError
from agentmath.orchestration.run import finish, supervised
from agentmath.orchestration.saving import open_run


def run(recipe: Recipe, resume: Path | None) -> None:
    """Run the supervised stage, or go on with it in `resume`; the last line printed is "run: PATH"."""
    if not recipe.sft.steps:
        raise ConfigError("the recipe has no supervised stage: sft.steps is 0; give --sft.steps N")
    with open_run(recipe, resume, print) as opened:
        supervised(opened, print)
        print(closing_words(finish(opened), opened.directory, recipe))
