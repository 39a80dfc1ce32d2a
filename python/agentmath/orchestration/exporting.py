"""agentmath eval --export DIR: figures, samples and the recipe, for somebody else to check."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from agentmath.config.dump import dump_recipe
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError
from agentmath.core.types import Group
from agentmath.evaluation.export import Exported, aggregate, sample_lines
from agentmath.evaluation.store import SAMPLES
from agentmath.orchestration.evaluating import Evaluation
from agentmath.rollout.recorder import iterate_trajectories
from agentmath.telemetry.run_dir import RECIPE, write_atomically


def export_evaluations(done: Sequence[Evaluation], recipe: Recipe, folder: Path) -> None:
    """Write results_DATE.json, samples_TASK_DATE.jsonl and recipe.toml. Raises ConfigError for a folder that cannot be
    written."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(now))
    exported = [_exported(each) for each in done]
    seconds = sum(each.results["seconds"] for each in done)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / RECIPE, dump_recipe(recipe))
        for each in exported:
            text = "".join(f"{line}\n" for line in sample_lines(each))
            write_atomically(folder / f"samples_{each.task}_{stamp}.jsonl", text)
        figures = aggregate(exported, recipe=dump_recipe(recipe), date=now, seconds=seconds)
        write_atomically(folder / f"results_{stamp}.json", json.dumps(figures, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"--export {folder} cannot be written: {error.strerror or error}") from error


def _exported(each: Evaluation) -> Exported:
    """An evaluation with its texts, as its samples.parquet has them."""
    prompts: dict[int, str] = {}
    texts: dict[tuple[int, int], str] = {}
    for row in iterate_trajectories(each.folder / SAMPLES):
        prompts[row["ordinal"]] = row["prompt_text"]
        texts[row["ordinal"], row["sample_index"]] = "".join(s["text"] for s in row["spans"] if s["turn"] >= 0)

    def texts_of(group: Group) -> list[str]:
        return [texts[group.ordinal, t.sample_index] for t in group.trajectories if t.reward is not None]

    return Exported(
        task=f"{each.set_name}.{each.mode}",
        results=each.results,
        groups=each.groups,
        prompt_of=lambda group: prompts.get(group.ordinal, ""),
        texts_of=texts_of,
    )
