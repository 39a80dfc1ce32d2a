"""Word problems from patterns: a text with holes, ranges of numbers, and the calculation that solves it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agentmath.core.errors import ConfigError
from agentmath.core.types import Task
from agentmath.data.expressions import exact_value, intermediate_results, number_text, parse_arithmetic

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo")
THINGS = ("pens", "shells", "stamps", "coins", "cards", "beads", "plums", "bricks")

_ENUMERATED = 20_000
_ENOUGH_ROOM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One kind of problem. Two problems of a kind are the same problem when their numbers are the same."""

    texts: tuple[str, ...]
    """Wordings with holes {a} {b} {c} for numbers, {n} for a name and {t} for things."""
    expression: str
    """The calculation with the same holes, e.g. "{a}*{b}+{c}"."""
    ranges: tuple[range, ...]
    """Where a, b, c are drawn from."""
    fits: Callable[..., bool] = lambda *numbers: True
    """Whether numbers make sense, e.g. nothing is sold that was not there."""

    @property
    def room(self) -> int:
        """Combinations of numbers, fitting or not."""
        return math.prod(len(r) for r in self.ranges)


def generate(patterns: Sequence[Pattern], num: int, seed: str, *, prefix: str) -> list[Task]:
    """num problems, no two of a kind with the same numbers, kinds in equal shares as far as their numbers reach.

    Raises ConfigError when there are not as many.
    """
    rng = random.Random(f"{prefix}/{seed}")
    wanted = [num // len(patterns) + (i < num % len(patterns)) for i in range(len(patterns))]
    drawn = [list(itertools.islice(_numbers(p, w, rng), w)) for p, w in zip(patterns, wanted, strict=True)]
    missing = num - sum(len(d) for d in drawn)
    for pattern, numbers in zip(patterns, drawn, strict=True):
        if missing > 0:
            taken = set(numbers)
            numbers += itertools.islice((n for n in _numbers(pattern, num, rng) if n not in taken), missing)
            missing = num - sum(len(d) for d in drawn)
    if missing > 0:
        raise ConfigError(
            f"{num} {prefix} problems were asked for, only {num - missing} different ones exist with numbers of this "
            f"size: lower max_tasks or raise digits"
        )
    rows = [(p, n) for p, numbers in zip(patterns, drawn, strict=True) for n in numbers]
    rng.shuffle(rows)
    return [_task(pattern, numbers, rng, f"{prefix}-{i}") for i, (pattern, numbers) in enumerate(rows)]


def _numbers(pattern: Pattern, num: int, rng: random.Random) -> Iterator[tuple[int, ...]]:
    """Different fitting numbers in random order; all there are, where all are few."""
    if pattern.room <= max(_ENUMERATED, _ENOUGH_ROOM * num):
        every = [n for n in itertools.product(*pattern.ranges) if pattern.fits(*n)]
        rng.shuffle(every)
        yield from every
        return
    seen: set[tuple[int, ...]] = set()
    for _ in range(64 * (num + 16)):
        numbers = tuple(rng.choice(r) for r in pattern.ranges)
        if numbers not in seen and pattern.fits(*numbers):
            seen.add(numbers)
            yield numbers


def _task(pattern: Pattern, numbers: tuple[int, ...], rng: random.Random, identity: str) -> Task:
    holes = dict(zip("abc", numbers, strict=False))
    solution = pattern.expression.format(**holes)
    tree = parse_arithmetic(solution)
    text = rng.choice(pattern.texts).format(**holes, n=rng.choice(NAMES), t=rng.choice(THINGS))
    value: Fraction = exact_value(tree)
    return Task(
        id=identity,
        question=text,
        answer=number_text(value),
        intermediate=intermediate_results(tree),
        solution=solution,
    )
