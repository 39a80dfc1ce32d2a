"""[[data]]: where problems come from. Addressed by name in overrides: --data.svamp.path FILE."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section

GENERATED = ("arithmetic", "two_step", "word_problem", "reasoning_gym")
"""Kinds that make their problems and read no file."""


class DataSection(Section):
    name: str
    """Name of the source, unique in the recipe."""
    kind: Literal["arithmetic", "two_step", "word_problem", "reasoning_gym", "gsm8k", "svamp", "question_answer"] = (
        "question_answer"
    )
    """Where problems come from: a generator (the first four), or a file. question_answer knows the columns of most
    data sets; gsm8k insists on worked solutions and svamp on equations, for demonstrations."""
    path: str = ""
    """File (JSONL, JSON, both also as .gz, parquet, Arrow), folder of such files, or dataset of the hub (owner/name).
    A source with role eval and no path is left out, with a warning."""
    split: str = ""
    """Which files of a folder, or which part of a dataset: train, test, ..."""
    subset: str = ""
    """Which of a dataset's subsets: a folder in the folder, or what the hub calls a subset."""
    role: Literal["train", "eval", "train_and_eval"] = "train_and_eval"
    """Whether rows are trained on, evaluated on, or split by held_out."""
    held_out: int = Field(default=0, ge=0)
    """Rows set aside for evaluation when role is train_and_eval; drawn by a fixed seed, never trained on."""
    weight: float = Field(default=1.0, gt=0)
    """Share of training tasks drawn from this source, relative to the others'."""
    max_tasks: int = Field(default=0, ge=0)
    """Tasks used at most, 0 for all; for a generator, how many problems exist."""
    digits: int = Field(default=2, ge=1, le=9)
    """Digits of the numbers in generated problems."""
    steps: tuple[int, ...] = ()
    """Keep only rows whose solution has this many steps; empty keeps all. For kind word_problem, 1 to 8: the numbers of
    steps of the problems made, in equal shares; empty makes 1 to 4."""
    difficulty: tuple[float, ...] = ()
    """[low, high]: keep only rows whose difficulty lies between; empty keeps all. Rows without one are left out."""
    levels: tuple[str, ...] = ()
    """Keep only rows whose difficulty is one of these words, such as "Level 5"; empty keeps all."""
    difficulty_column: str = ""
    """Column of the difficulty; empty takes difficulty, else level. A dot leads into a column: extra_info.pass_rate."""
    question_column: str = ""
    """Column of the question; empty takes question, problem or prompt."""
    answer_column: str = ""
    """Column of the answer; empty takes the usual ones, docs/data.md."""
    instructions: Literal["cut", "keep"] = "cut"
    """Whether sentences that only say how to state the answer are cut from questions."""
    bad_rows: Literal["raise", "skip"] = "raise"
    """What a row that cannot be used does: end the run, or be left out and counted, as long as most rows are good."""
    repeats: Literal["drop", "keep"] = "drop"
    """Whether rows whose question stood in the source before are left out; with drop, so are all rows of a question
    that stands there with different numbers as answers."""
    max_question_chars: int = Field(default=20_000, ge=1)
    """A row with a longer question cannot be used."""
    dataset: str = ""
    """For kind reasoning_gym: which of its datasets."""
