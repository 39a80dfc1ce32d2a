"""Which tasks are trained on and which only evaluated on, and the endless stream that training draws from."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError, DataError
from agentmath.core.types import Task
from agentmath.data.repeats import normalised_question
from agentmath.data.sources import SourceCounts, load_source

HELD_OUT_SEED = 20
"""Which rows are held out does not depend on the run's seed, so that runs are measured on the same problems."""

_CACHED_ORDERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All tasks of a recipe. No training task asks the question of an evaluation task or of another training source."""

    train: dict[str, list[Task]] = field(default_factory=dict)
    """By source name; sources without training tasks are absent."""
    evaluation: dict[str, list[Task]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    """Of the sources in train."""
    counts: dict[str, SourceCounts] = field(default_factory=dict)
    """What became of the rows of each source."""
    num_contaminated: dict[str, int] = field(default_factory=dict)
    """Rows left out of train because their question is held out, or in another training source before."""

    @property
    def warnings(self) -> list[str]:
        """What a person should know before training on it."""
        return [words for name, counts in self.counts.items() for words in counts.warnings(name)]


def load_pool(sections: Sequence[DataSection], *, seed: int) -> Pool:
    """Read all sources and part training from evaluation. Raises DataError or ConfigError."""
    pool = Pool()
    train: dict[str, list[Task]] = {}
    for section in sections:
        if section.name in pool.counts:
            raise ConfigError(f"two data sources are called {section.name!r}: every source needs a name of its own")
        source = load_source(section, seed=seed)
        tasks = source.tasks
        pool.counts[section.name] = source.counts
        if section.role == "eval":
            pool.evaluation[section.name] = tasks
        elif section.role == "train_and_eval" and section.held_out:
            train[section.name], pool.evaluation[section.name] = split(tasks, section.held_out, HELD_OUT_SEED)
        else:
            train[section.name] = tasks
    taken = {normalised_question(t.question) for tasks in pool.evaluation.values() for t in tasks}
    for section in sections:
        if section.name in train:
            kept = [t for t in train[section.name] if normalised_question(t.question) not in taken]
            pool.num_contaminated[section.name] = len(train[section.name]) - len(kept)
            if not kept:
                raise DataError(
                    f"data.{section.name}: every row is also held out or in another source: nothing is left"
                )
            taken |= {normalised_question(t.question) for t in kept}
            pool.train[section.name] = kept
            pool.weights[section.name] = section.weight
    return pool


def split(tasks: Sequence[Task], held_out: int, seed: int) -> tuple[list[Task], list[Task]]:
    """(train, evaluation) with held_out evaluation tasks drawn by the seed; both keep the order of tasks.

    Raises DataError when no training task would be left.
    """
    if held_out >= len(tasks):
        source = tasks[0].source if tasks else "the source"
        raise DataError(f"{source}: {held_out} rows are to be held out, but there are {len(tasks)}: lower held_out")
    chosen = set(random.Random(f"held out/{seed}").sample(range(len(tasks)), held_out))
    return [t for i, t in enumerate(tasks) if i not in chosen], [t for i, t in enumerate(tasks) if i in chosen]


class TaskStream:
    """An endless stream of training tasks: task_at(ordinal) is a function of the seed and the ordinal alone.

    To resume, keep the next ordinal. Sources follow each other so that after any n tasks each has had its share of n to
    within a few tasks. A source gives each of its tasks once before any of them again, each time in another order.
    """

    def __init__(self, train: Mapping[str, Sequence[Task]], weights: Mapping[str, float], *, seed: int) -> None:
        """Raises DataError when there is nothing to draw from."""
        names = [name for name in train if train[name]]
        if not names:
            raise DataError("no training task: give a data source whose role is train or train_and_eval")
        self._seed = seed
        self._sources = [(name, train[name]) for name in names]
        shares = [Fraction(weights[name]).limit_denominator(10**6) for name in names]
        rests = [sum(shares[i:], Fraction(0)) for i in range(len(shares))]
        self._shares = [share / rest for share, rest in zip(shares, rests, strict=True)]
        rng = random.Random(f"stream/{seed}")
        self._offsets = [Fraction(rng.randrange(10**6), 10**6) for _ in names]
        self._orders: dict[tuple[str, int], list[int]] = {}

    def task_at(self, ordinal: int) -> Task:
        """The task at a position of the stream, counted from 0."""
        if ordinal < 0:
            raise ValueError(f"ordinal {ordinal} is negative")
        place = ordinal
        last = len(self._sources) - 1
        for i, (name, tasks) in enumerate(self._sources):
            # Of the first n places left to it, a source takes floor(n * share + offset) in all.
            before = floor(place * self._shares[i] + self._offsets[i])
            after = floor((place + 1) * self._shares[i] + self._offsets[i])
            if i == last or after > before:
                count = place if i == last else before
                epoch, row = divmod(count, len(tasks))
                return tasks[self._order(name, epoch, len(tasks))[row]]
            place -= before
        raise AssertionError("the last source takes every place that is left")

    def _order(self, name: str, epoch: int, num_tasks: int) -> list[int]:
        key = (name, epoch)
        if key not in self._orders:
            order = list(range(num_tasks))
            random.Random(f"{self._seed}/{name}/{epoch}").shuffle(order)
            while len(self._orders) >= _CACHED_ORDERS * len(self._sources):
                del self._orders[next(iter(self._orders))]
            self._orders[key] = order
        return self._orders[key]
