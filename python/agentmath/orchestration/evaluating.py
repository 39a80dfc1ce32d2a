"""agentmath eval at work: every held-out set in every mode, kept on disk as it goes, figures at the end."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentmath.config.dump import dump_recipe
from agentmath.core.types import JSON, Group, Task
from agentmath.evaluation.bands import read_bands
from agentmath.evaluation.modes import MODES, Mode
from agentmath.evaluation.results import Context, paired_difference, results_of
from agentmath.evaluation.runner import Draw, draw_blocks, draw_singly
from agentmath.evaluation.store import RESULTS, SAMPLES, Store, digest_of
from agentmath.orchestration.evaluator import Evaluator
from agentmath.orchestration.measure import refuse_dead_infrastructure
from agentmath.orchestration.versions import package_versions
from agentmath.rollout.recorder import write_trajectories
from agentmath.telemetry.progress import Progress
from agentmath.telemetry.run_dir import RECIPE, write_atomically

_LINES = 50
"""Refreshes of the progress display in one evaluation."""
EVALUATION = "evaluation"
"""Folder of a run's evaluations."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One set in one mode, measured."""

    set_name: str
    mode: str
    folder: Path
    results: JSON
    groups: list[Group]
    bands: dict[str, str] | None
    """Band of each task, by its id."""


def evaluate_all(evaluator: Evaluator, where: Path) -> list[Evaluation]:
    """Measure every held-out set in every mode; what lies in `where` from an earlier life is not drawn again.

    With both modes, the results of r_code hold the paired difference to r_only. Raises EngineError when nothing but
    failures comes, ConfigError for a folder that cannot be written.
    """
    return [e for name in evaluator.pool.evaluation for e in _evaluate_set(evaluator, name, where)]


def _evaluate_set(evaluator: Evaluator, name: str, where: Path) -> Iterator[Evaluation]:
    modes = dict.fromkeys(evaluator.recipe.evaluation.modes)
    done = [evaluate_one(evaluator, name, MODES[mode], where) for mode in modes]
    by_mode = {e.mode: e for e in done}
    if by_mode.keys() == {"r_only", "r_code"}:
        code, only = by_mode["r_code"], by_mode["r_only"]
        seed = evaluator.recipe.run.seed
        code.results["difference_to_r_only"] = paired_difference(code.groups, only.groups, code.bands, seed=seed)
    for each in done:
        write_atomically(each.folder / RESULTS, json.dumps(each.results, indent=1) + "\n")
    yield from done


def evaluate_one(evaluator: Evaluator, name: str, mode: Mode, where: Path) -> Evaluation:
    """Measure one set in one mode: draw what is missing, write samples.parquet, compute results."""
    recipe = evaluator.recipe
    tasks = evaluator.pool.evaluation[name][: recipe.evaluation.num_tasks]
    plan = plan_of(evaluator, name, mode, tasks)
    folder = where / f"{name}.{mode.name}.{digest_of(plan)[:8]}"
    bands = read_bands(Path(recipe.evaluation.bands), plan=plan) if recipe.evaluation.bands else None
    with Store(folder, evaluator.pieces) as store:
        write_atomically(folder / "plan.json", json.dumps(plan, indent=1) + "\n")
        write_atomically(folder / RECIPE, dump_recipe(recipe))
        groups = _draw(evaluator, mode, tasks, store, title=f"{name} {mode.name}")
        write_trajectories(folder / SAMPLES, groups, 0, evaluator.tokenizer.decode)
        context = Context(
            name=folder.name,
            plan=plan,
            model=evaluator.model,
            recipe=dump_recipe(recipe),
            command=f"agentmath eval {shlex.quote(str(folder / RECIPE))}",
            versions=package_versions(),
            seconds=store.seconds,
            requests=dict(store.counts),
            bands=bands,
        )
        results = results_of(groups, context, num_samples=recipe.evaluation.num_samples, seed=recipe.run.seed)
    return Evaluation(set_name=name, mode=mode.name, folder=folder, results=results, groups=groups, bands=bands)


def _draw(evaluator: Evaluator, mode: Mode, tasks: Sequence[Task], store: Store, *, title: str) -> list[Group]:
    recipe, section = evaluator.recipe, evaluator.recipe.evaluation
    total = len(tasks) * section.num_samples
    with Progress(recipe.telemetry, total, title, first_step=len(store.done), stream=sys.stderr) as shown:
        stride = max(total // _LINES, 1)

        def tell(num_done: int) -> None:
            if num_done // stride > shown.step // stride or shown.step < num_done == total:
                shown.update(num_done, {"accuracy": _accuracy(store)} if store.done else {})

        draw = Draw(
            tasks=tasks,
            num_samples=section.num_samples,
            stage=evaluator.stage(mode),
            store=store,
            score=evaluator.score(mode),
            counts=evaluator.counts,
            tell=tell,
        )
        if recipe.endpoint.url:
            evaluator.run(draw_singly(draw, max_concurrent=recipe.endpoint.max_concurrent))
        else:
            size = section.block_samples or 2 * recipe.engine.max_rows
            evaluator.run(draw_blocks(draw, block_samples=size))
    groups = draw.groups()
    refuse_dead_infrastructure(groups)
    return groups


def _accuracy(store: Store) -> float:
    """So far, over samples."""
    return sum(t.reward is not None and t.reward.accuracy == 1.0 for t in store.done.values()) / len(store.done)


def plan_of(evaluator: Evaluator, name: str, mode: Mode, tasks: Sequence[Task]) -> JSON:
    """All that decides which samples are drawn and how they are graded: its digest names the folder."""
    recipe = evaluator.recipe
    model = {key: value for key, value in evaluator.model.items() if key != "path" or "digest" not in evaluator.model}
    rollout = mode.rollout(recipe.rollout).model_dump()
    used = ("max_sampled_tokens", "max_context_tokens", "max_tool_calls", "max_invalid_calls", "max_tool_output_tokens")
    engine = {} if recipe.endpoint.url else recipe.engine.model_dump()
    drawn = ("temperature", "top_p", "num_samples", "block_samples")
    return {
        "format": 1,
        "set": name,
        "mode": mode.name,
        "model": model,
        "tasks": {"num_tasks": len(tasks), "digest": digest_of([[t.id, t.question, t.answer] for t in tasks])},
        "seed": recipe.run.seed,
        "sampling": {key: getattr(recipe.evaluation, key) for key in drawn},
        "prompt": mode.prompt(recipe.prompt).model_dump(),
        "rollout": {key: rollout[key] for key in used},
        "engine": engine,
        "sandbox": recipe.sandbox.model_dump(),
        "grading": recipe.grading.model_dump(),
    }
