"""Word problems of any length: a chain of 1 to 8 calculations told as a story, on numbers of a chosen size.

They are clean by construction: amounts are whole and above 0, no division leaves a rest that is not spoken of, and no
two problems have the same events with the same numbers. Each answer is computed twice, while the story is drawn and
from the finished expression.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from agentmath.core.errors import ConfigError
from agentmath.core.types import Task
from agentmath.data.expressions import intermediate_results, parse_arithmetic
from agentmath.data.patterns import NAMES, THINGS
from agentmath.data.worlds import WORLDS, Event, World

MAX_STEPS = 8
_USUAL_STEPS = (1, 2, 3, 4)
_PEOPLE = (*NAMES, "Ines", "Jon", "Kim", "Lea")
_LARGEST_FACTOR = 12
_LARGEST_DIVISOR = 99
_MAX_VAIN_TRIES = 2000
"""Stories in a row that were told before or came to no end: then there are hardly any others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A story as it was drawn."""

    key: tuple[object, ...]
    """World, events and numbers: what makes two problems one."""
    sentences: tuple[str, ...]
    expression: str
    value: int


def word_problems(num: int, *, digits: int, steps: tuple[int, ...] = (), seed: int) -> list[Task]:
    """num problems, each number of steps in equal shares; first amounts and what is added have at most `digits` digits.

    Task.solution is the expression, e.g. "((12+30)*4)%5", Task.intermediate its results in order, Task.difficulty the
    number of steps. Raises ConfigError for steps out of 1 to 8 and when there are not as many different problems.
    """
    wanted = tuple(dict.fromkeys(steps)) or _USUAL_STEPS
    if not all(1 <= count <= MAX_STEPS for count in wanted):
        raise ConfigError(f"word problems have 1 to {MAX_STEPS} steps: steps = {list(steps)} cannot be made")
    rng = random.Random(f"word_problem/{seed}/{digits}/{sorted(wanted)}")
    told: list[_Told] = []
    for i, count in enumerate(wanted):
        share = num // len(wanted) + (i < num % len(wanted))
        told += _different(share, count, digits, rng)
    rng.shuffle(told)
    return [_task(story, f"word_problem-{i}") for i, story in enumerate(told)]


def _different(num: int, steps: int, digits: int, rng: random.Random) -> Iterator[_Told]:
    seen: set[tuple[object, ...]] = set()
    num_vain = 0
    while len(seen) < num and num_vain < _MAX_VAIN_TRIES:
        story = _tell(rng.choice(WORLDS), steps, digits, rng)
        num_vain += 1
        if story is not None and story.key not in seen:
            seen.add(story.key)
            num_vain = 0
            yield story
    if len(seen) < num:
        raise ConfigError(
            f"{num} word problems of {steps} steps were asked for, only {len(seen)} different ones were found with "
            f"numbers of {digits} digits: lower max_tasks or raise digits"
        )


def _tell(world: World, steps: int, digits: int, rng: random.Random) -> _Told | None:
    """One story; None when it came to an amount from which nothing leads on."""
    people = rng.sample(_PEOPLE, len(_PEOPLE))
    things = rng.choice(THINGS)
    first = value = rng.randint(2, min(10**digits - 1, world.most))
    sentences = [rng.choice(world.begins).format(a=first, n=people[0], t=things)]
    expression = str(first)
    key: list[object] = [WORLDS.index(world), first]
    left = steps
    while left:
        options = [event for event in world.events if _num_steps(event) <= left]
        drawn = ((event, _numbers(event.change, value, digits, rng)) for event in rng.sample(options, len(options)))
        found = next(((e, n, v) for e, n in drawn if n and 1 <= (v := _after(e.change, value, *n)) <= world.most), None)
        if found is None:
            return None
        event, (j, k), value = found
        sentences.append(rng.choice(event.texts).format(j=j, k=k, n=people[0], m=people[1], t=things))
        if world.is_chain:
            people = people[1:]
        expression = _extended(expression, event.change, j, k)
        key += [event.change, j, k]
        left -= _num_steps(event)
    sentences.append(rng.choice(world.asks).format(n=people[0], t=things))
    return _Told(key=tuple(key), sentences=tuple(sentences), expression=expression, value=value)


def _num_steps(event: Event) -> int:
    return 2 if "j" in event.change else 1


def _numbers(change: str, value: int, digits: int, rng: random.Random) -> tuple[int, int] | None:
    """(j, k) that make sense for an amount, j = 0 where there is no j; None when there are none."""
    most = 10**digits - 1
    match change:
        case "+k":
            return 0, rng.randint(2, most)
        case "-k":
            return (0, rng.randint(2, min(value - 1, most))) if value > 2 else None
        case "*k":
            return 0, rng.randint(2, min(_LARGEST_FACTOR, most))
        case "/k":
            divisors = [k for k in range(2, min(_LARGEST_FACTOR, most) + 1) if value % k == 0 and value > k]
            return (0, rng.choice(divisors)) if divisors else None
        case "%k":
            divisors = [k for k in range(3, min(_LARGEST_DIVISOR, most, value) + 1) if value % k]
            return (0, rng.choice(divisors)) if divisors else None
        case "//k":
            top = min(_LARGEST_FACTOR, most, value // 2)
            return (0, rng.randint(2, top)) if top >= 2 else None
        case "k-":
            return 0, value + rng.randint(1, most)
        case "+j*k":
            return rng.randint(2, min(_LARGEST_FACTOR, most)), rng.randint(2, most)
        case _:
            j = rng.randint(2, min(_LARGEST_FACTOR, most))
            top = min((value - 1) // j, most)
            return (j, rng.randint(2, top)) if top >= 2 else None


def _after(change: str, value: int, j: int, k: int) -> int:
    """The amount after an event."""
    results = {"+k": value + k, "-k": value - k, "*k": value * k, "k-": k - value, "+j*k": value + j * k}
    results |= {"-j*k": value - j * k, "/k": value // k, "%k": value % k, "//k": value // k}
    return results[change]


def _extended(expression: str, change: str, j: int, k: int) -> str:
    before = expression if expression.isdigit() else f"({expression})"
    calculation = change.replace("j", str(j)).replace("k", str(k))
    return f"{calculation}{before}" if change == "k-" else f"{before}{calculation}"


def _task(story: _Told, identity: str) -> Task:
    results = intermediate_results(parse_arithmetic(story.expression))
    assert results[-1] == str(story.value), f"{story.expression} is {results[-1]} and not {story.value}"
    return Task(
        id=identity,
        question=" ".join(story.sentences),
        answer=str(story.value),
        difficulty=float(len(results)),
        intermediate=results,
        solution=story.expression,
    )
