"""Checkpoints of a run: what goes in, and how a run comes back from one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmath.config.load import diff_recipes, dump_recipe, load_recipe
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError, EngineError, Interrupted
from agentmath.orchestration.build import Parts, open_parts
from agentmath.orchestration.state import RunState
from agentmath.telemetry.run_dir import RunDirectory, refuse_existing_run, run_path, write_atomically
from agentmath.telemetry.writers import MetricsWriter
from agentmath.training import checkpoint
from agentmath.training.sft import SFTState
from agentmath.training.update import loss_backend

MAY_CHANGE = (
    "run.output_dir",
    "run.num_threads",
    "telemetry.",
    "training.keep_checkpoints",
    "training.checkpoint_every_steps",
    "training.nonfinite",
    "rollout.deadline_seconds",
    *(f"engine.{key}" for key in ("python", "socket_dir", "start_seconds", "answer_seconds", "stall_seconds")),
    "engine.max_restarts",
)
"""Settings that a resumed run may have otherwise: they change nothing that a run without faults computes."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Parts at work in a run directory."""

    parts: Parts
    directory: RunDirectory
    writer: MetricsWriter


@contextmanager
def open_run(recipe: Recipe, resume: Path | None, say: Callable[[str], None]) -> Iterator[Run]:
    """A new run, or the one in `resume` at its newest checkpoint with everything recorded later cut off.

    Raises ConfigError when the directory holds another run, or when the recipe differs from the run's own; Interrupted
    when Ctrl-C or SIGTERM ends what is done with it; CheckpointError when no checkpoint of the run is whole.
    """
    if resume is None:
        refuse_existing_run(run_path(recipe.run))
    else:
        refuse_changed_recipe(recipe, resume)
    with open_parts(recipe) as parts:
        for warning in parts.pool.warnings:
            say(f"warning: {warning}")
        say(f"loss backend: {loss_backend(parts.policy, recipe.training)}, on {parts.policy.device}")
        directory = RunDirectory.create(run_path(recipe.run)) if resume is None else RunDirectory.resume(resume)
        with directory:
            parts.inspection_folder = directory.inspect
            if resume is None:
                write_atomically(directory.recipe, dump_recipe(recipe))
            else:
                restore(parts, directory, say)
            with MetricsWriter(directory, recipe.telemetry, resumed=resume is not None) as writer:
                try:
                    yield Run(parts=parts, directory=directory, writer=writer)
                except KeyboardInterrupt as error:
                    raise Interrupted(
                        f"stopped by {error or 'Ctrl-C'}; the run goes on from its last checkpoint with: "
                        f"agentmath rl --resume {directory.path}"
                    ) from error


def refuse_changed_recipe(recipe: Recipe, resume: Path) -> None:
    """Raise ConfigError that lists what differs from the recipe the run was started with."""
    started = load_recipe(str(resume / "recipe.toml"), [])
    changes = [line for line in diff_recipes(started, recipe) if not line.startswith(MAY_CHANGE)]
    if changes:
        raise ConfigError(
            "a resumed run must go on with its own recipe; these settings differ:\n  "
            + "\n  ".join(changes)
            + f"\nTake them back (agentmath rl --resume {resume} needs no recipe), or start a new run."
        )


def save_rl(run: Run) -> Path:
    """Checkpoint between two reinforcement-learning steps."""
    return _save(run, "rl", run.parts.state.step, {"optimizer": run.parts.optimizer.state_dict()})


def save_sft(run: Run) -> Path:
    """Checkpoint between two supervised steps, or at the end of the stage."""
    parts = run.parts
    tensors = {"optimizer": parts.sft_optimizer.state_dict(), "sft": parts.sft_state.state_dict()}
    return _save(run, "sft", parts.state.sft_step, tensors)


def _save(run: Run, stage: str, step: int, tensors: dict[str, Any]) -> Path:
    parts = run.parts
    held = checkpoint.Parts(
        model=parts.policy.module.state_dict(),
        optimizer=tensors,
        state=parts.state.as_json(),
        parked=parts.collector.snapshot(),
        recipe=dump_recipe(parts.recipe),
    )
    keep = parts.recipe.training.keep_checkpoints
    return checkpoint.save(run.directory.checkpoints / stage, step, held, keep=keep)


@contextmanager
def rollouts_written_on_failure(run: Run) -> Iterator[None]:
    """When rollouts end in an EngineError, write where each unfinished trajectory stood, and say where."""
    try:
        yield
    except EngineError as error:
        path = run.directory.inspect / f"rollouts-{run.parts.state.step + 1:06d}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(run.parts.collector.dump())
        raise EngineError(f"{error} Where each unfinished trajectory stands: {path}.") from error


def restore(parts: Parts, directory: RunDirectory, say: Callable[[str], None]) -> None:
    """Bring parts to the newest checkpoint; without one the run begins anew. What was recorded later is cut off."""
    stage, path = "rl", checkpoint.latest(directory.checkpoints / "rl", say)
    if path is None:
        stage, path = "sft", checkpoint.latest(directory.checkpoints / "sft", say)
    if path is None:
        directory.cut_after(0, stage="sft", num_evaluations=0)
        return
    _, held = checkpoint.load(path)
    parts.policy.module.load_state_dict(held.model)
    parts.state = RunState.from_json(held.state)
    parts.collector.restore(held.parked)
    parts.enter_stage()
    if stage == "rl":
        parts.optimizer.load_state_dict(held.optimizer["optimizer"])
    else:
        parts.sft_optimizer.load_state_dict(held.optimizer["optimizer"])
        parts.sft_state = SFTState.from_state_dict(held.optimizer["sft"])
    parts.publish(parts.state.version)
    step = parts.state.step if stage == "rl" else parts.state.sft_step
    num_evaluations = sum(len(e["results"]) for e in parts.state.evaluations)
    directory.cut_after(step, stage=stage, num_evaluations=num_evaluations)
