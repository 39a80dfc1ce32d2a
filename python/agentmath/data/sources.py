"""All tasks of one source: made by a generator or read from files, filtered, repeats left out, everything counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError, DataError
from agentmath.core.types import Task
from agentmath.data.files import RowError
from agentmath.data.folders import source_rows
from agentmath.data.generators import arithmetic, two_step
from agentmath.data.gym import gym_tasks
from agentmath.data.repeats import without_repeats
from agentmath.data.schemas import Read, num_steps, read_task
from agentmath.data.word_problems import word_problems

GENERATORS: Mapping[str, Callable[[DataSection, int], list[Task]]] = {
    "arithmetic": lambda section, seed: arithmetic(section.max_tasks, section.digits, seed),
    "two_step": lambda section, seed: two_step(section.max_tasks, section.digits, seed),
    "word_problem": lambda section, seed: word_problems(
        section.max_tasks, digits=section.digits, steps=section.steps, seed=seed
    ),
    "reasoning_gym": lambda section, seed: gym_tasks(section.dataset, section.max_tasks, seed),
}
_SHOWN_FAULTS = 3


@dataclass(slots=True, kw_only=True)
class SourceCounts:
    """What became of the rows of a source. Every row is in one of kept, bad, outside, repeats and conflicting."""

    rows: int = 0
    """Rows read; with max_tasks, up to the last one needed."""
    kept: int = 0
    bad: Counter[str] = field(default_factory=Counter[str])
    """Rows that cannot be used, by what is wrong with them."""
    faults: list[str] = field(default_factory=list[str])
    """What is wrong with the first of them, and where."""
    outside: Counter[str] = field(default_factory=Counter[str])
    """Rows that a filter keeps out, by its key: steps, difficulty, levels."""
    repeats: int = 0
    conflicting: int = 0
    """Rows of questions that stand there with different numbers as answers."""
    instructions: int = 0
    """Rows from whose question sentences on how to answer were cut."""
    difficulties: Counter[str] = field(default_factory=Counter[str])
    """Kept rows by their difficulty, as it is stated."""

    def warnings(self, name: str) -> Iterator[str]:
        """What a person should know before training on the source `name`."""
        if num_bad := self.bad.total():
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.bad.most_common())
            shown = "; ".join(self.faults)
            yield f"data.{name}: {num_bad} of {self.rows} rows cannot be used and are left out ({kinds}): {shown}"
        if self.conflicting:
            yield (
                f"data.{name}: {self.conflicting} rows ask questions that stand there with different answers; which is "
                "right cannot be known, so all of them are left out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The tasks of one source, in file order, with ids of their own."""

    name: str
    tasks: list[Task]
    counts: SourceCounts


def load_source(section: DataSection, *, seed: int) -> Source:
    """All tasks of one source, at most section.max_tasks.

    Raises DataError for what is wrong with a file or, unless they are skipped, one of its rows; ConfigError for what is
    wrong with the section.
    """
    counts = SourceCounts()
    if section.kind in GENERATORS:
        if section.max_tasks == 0:
            raise ConfigError(f"data.{section.name}: a generator must know how many problems to make: set max_tasks")
        made = GENERATORS[section.kind](section, seed)
        counts.rows = len(made)
        tasks = (replace(task, source=section.name) for task in made)
    elif not section.path:
        raise ConfigError(f"data.{section.name} ({section.kind}) has no file: give --data.{section.name}.path FILE")
    else:
        tasks = _read_tasks(section, counts)
    if section.repeats == "keep":
        kept = list(islice(tasks, section.max_tasks or None))
    else:
        found = without_repeats(tasks, section.max_tasks)
        kept, counts.repeats, counts.conflicting = found.tasks, found.num_repeats, found.num_conflicting
    _refuse_bad(section, counts)
    if not kept:
        raise DataError(f"data.{section.name}: {_nothing_left(section, counts)}")
    kept = list(_with_unique_ids(kept))
    counts.kept = len(kept)
    counts.difficulties.update(f"{task.difficulty:g}" for task in kept if task.difficulty is not None)
    return Source(name=section.name, tasks=kept, counts=counts)


def _read_tasks(section: DataSection, counts: SourceCounts) -> Iterator[Task]:
    """Tasks of the rows that can be used and pass the filters; the others are counted."""
    levels = frozenset(_plain(level) for level in section.levels)
    for row in source_rows(section.path, split=section.split, subset=section.subset):
        counts.rows += 1
        try:
            if isinstance(row, RowError):
                raise row
            read = read_task(row, section)
        except RowError as error:
            if section.bad_rows == "raise":
                raise
            counts.bad[error.fault] += 1
            if len(counts.faults) < _SHOWN_FAULTS:
                counts.faults.append(str(error))
            continue
        if key := _outside(read, section, levels):
            counts.outside[key] += 1
            continue
        counts.instructions += read.has_instructions
        yield read.task


def _outside(read: Read, section: DataSection, levels: frozenset[str]) -> str:
    """The key of the filter that keeps a row out; empty when none does."""
    if section.steps and num_steps(read.task) not in section.steps:
        return "steps"
    if section.difficulty:
        low, high = section.difficulty
        if read.task.difficulty is None or not low <= read.task.difficulty <= high:
            return "difficulty"
    return "levels" if levels and _plain(read.difficulty) not in levels else ""


def _plain(level: str) -> str:
    """A level without the word: "Level 5" and "5" are one."""
    return level.casefold().removeprefix("level").strip()


def _with_unique_ids(tasks: Iterable[Task]) -> Iterator[Task]:
    """Tasks with ids of their own: the second of an id "7" becomes "7#2"."""
    taken: Counter[str] = Counter()
    for task in tasks:
        identity = task.id
        while taken[identity]:
            taken[task.id] += 1
            identity = f"{task.id}#{taken[task.id]}"
        taken[identity] += 1
        yield task if identity == task.id else replace(task, id=identity)


def _refuse_bad(section: DataSection, counts: SourceCounts) -> None:
    """Raise DataError when most rows cannot be used: then the file is not what the section says."""
    if counts.bad.total() * 2 > counts.rows:
        raise DataError(
            f"data.{section.name}: {counts.bad.total()} of {counts.rows} rows of {section.path} cannot be used as kind "
            f"{section.kind}, most of them, so none is: {counts.faults[0]}"
        )


def _nothing_left(section: DataSection, counts: SourceCounts) -> str:
    filters = {key: value for key in ("steps", "difficulty", "levels") if (value := getattr(section, key))}
    kept_by = ", ".join(f"{key} = {list(value)}" for key, value in filters.items())
    if counts.outside.total():
        return f"no row of {section.path} is kept by {kept_by}"
    return f"all {counts.rows} rows ask questions that stand there with different answers"
