"""agentmath rl RECIPE: the whole run, from the supervised stage to the report."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from agentmath.config.recipe import Recipe
from agentmath.core.types import JSON
from agentmath.orchestration.run import finish, reinforce, supervised
from agentmath.orchestration.saving import open_run
from agentmath.telemetry.run_dir import RunDirectory


def run(recipe: Recipe, resume: Path | None) -> None:
    """Run the recipe, or go on with the run in `resume`; the last line printed is "run: PATH"."""
    with open_run(recipe, resume, print) as opened:
        supervised(opened, print)
        reinforce(opened, print)
        summary = finish(opened)
        print(closing_words(summary, opened.directory, recipe))


def closing_words(summary: JSON, directory: RunDirectory, recipe: Recipe) -> str:
    """What the run came to, where everything is, and what to try next."""

    def figure(name: str) -> str:
        value = summary[name]
        return "-" if value is None else f"{value:.3f}"

    rate = summary["tokens_per_second"]
    program = "agentmath" if shutil.which("agentmath") else str(Path(sys.executable).with_name("agentmath"))
    return "\n".join(
        [
            "",
            f"accuracy  {figure('accuracy_before')} -> {figure('accuracy_after')}   (held-out tasks)",
            f"tool use  {figure('tool_use_before')} -> {figure('tool_use_after')}",
            f"training  {summary['train_seconds']:.0f} s, {summary['sft_steps']} supervised and {summary['steps']} "
            f"reinforcement steps, {'-' if rate is None else format(rate, ',.0f')} tokens/s",
            f"report    {directory.report}",
            "",
            "next:     open the report; look at a step's trajectories in it",
            f"          {program} rl {recipe.run.name} --run.seed {recipe.run.seed + 1}      (another seed)",
            f"          {program} recipes; {program} plan RECIPE      (what else there is, and what it would take)",
            f"run: {directory.path}",
        ]
    )
