"""[[data]]: where problems come from. Addressed by name in overrides: --data.svamp.path FILE."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class DataSection(Section):
    name: str
    """Name of the source, unique in the recipe."""
    kind: Literal["arithmetic", "two_step", "gsm8k", "svamp", "question_answer"] = "question_answer"
    """How rows are read: a built-in generator or the schema of a file."""
    path: str = ""
    """File (JSONL, JSONL.gz, JSON, parquet); not used by generators. A source with role eval and no path is left out,
    with a warning."""
    role: Literal["train", "eval", "train_and_eval"] = "train_and_eval"
    """Whether rows are trained on, evaluated on, or split by held_out."""
    held_out: int = Field(default=0, ge=0)
    """Rows set aside for evaluation when role is train_and_eval; drawn by a fixed seed, never trained on."""
    weight: float = Field(default=1.0, gt=0)
    """Share of training tasks drawn from this source, relative to the others'."""
    max_tasks: int = Field(default=0, ge=0)
    """Rows used at most, 0 for all; for a generator, how many problems exist."""
    digits: int = Field(default=2, ge=1, le=9)
    """Digits of the numbers in generated problems."""
    steps: tuple[int, ...] = ()
    """Keep only rows whose solution has this many steps; empty keeps all."""
