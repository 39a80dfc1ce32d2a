"""Checkpoints of a run: what goes in, and how a run comes back from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentmath.config.load import dump_recipe
from agentmath.orchestration.build import Parts
from agentmath.orchestration.state import RunState
from agentmath.rollout import parking
from agentmath.training import checkpoint
from agentmath.training.sft import SFTState


def save_rl(parts: Parts) -> Path:
    """Checkpoint between two reinforcement-learning steps."""
    return _save(parts, "rl", parts.state.step, {"optimizer": parts.optimizer.state_dict()})


def save_sft(parts: Parts, state: SFTState) -> Path:
    """Checkpoint between two supervised steps, or at the end of the stage."""
    optimizer = {"optimizer": parts.sft_optimizer.state_dict(), "sft": state.state_dict()}
    return _save(parts, "sft", parts.state.sft_step, optimizer)


def _save(parts: Parts, stage: str, step: int, tensors: dict[str, Any]) -> Path:
    held = checkpoint.Parts(
        model=parts.policy.state_dict(),
        optimizer=tensors,
        state=parts.state.as_json(),
        parked=parking.to_bytes(parts.collector.parked),
        recipe=dump_recipe(parts.recipe),
    )
    folder = parts.directory.checkpoints / stage
    return checkpoint.save(folder, step, held, keep=parts.recipe.training.keep_checkpoints)


def newest(folder: Path) -> Path | None:
    """The newest whole checkpoint of a run's checkpoint folder: reinforcement learning comes after supervision."""
    return checkpoint.latest(folder / "rl") or checkpoint.latest(folder / "sft")
