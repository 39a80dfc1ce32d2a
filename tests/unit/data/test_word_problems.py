from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath.core.errors import ConfigError
from agentmath.core.types import Task
from agentmath.data.demonstrations import program_of
from agentmath.data.repeats import normalised_question
from agentmath.data.word_problems import word_problems
from agentmath.data.worlds import WORLDS


def told(task: Task) -> int:
    """The answer by reading the story alone: each sentence is looked up in the worlds and worked out here."""
    first, *middle, last = re.split(r"(?<=[.])\s+", task.question)
    world, begun = next((w, m) for w in reversed(WORLDS) for text in w.begins if (m := pattern(text).fullmatch(first)))
    amount, person = int(begun["a"]), begun.groupdict().get("n")
    for sentence in middle:
        readings = (
            (event.change, found)
            for event in world.events
            for text in event.texts
            if (found := pattern(text).fullmatch(sentence))
        )
        change, found = next(r for r in readings if not world.is_chain or r[1]["n"] == person)
        amount = after(change, amount, int(found.groupdict().get("j") or 0), int(found["k"]))
        assert amount > 0
        person = found["m"] if world.is_chain else person
    asked = next(m for text in world.asks if (m := pattern(text).fullmatch(last)))
    assert not world.is_chain or asked["n"] == person
    return amount


def after(change: str, amount: int, j: int, k: int) -> int:
    match change:
        case "/k":
            assert amount % k == 0
            return amount // k
        case "//k":
            return amount // k
        case "%k":
            return amount - k * (amount // k)
        case "k-":
            return k - amount
        case "*k":
            return sum([amount] * k)
        case _:
            return amount + (1 if change[0] == "+" else -1) * (j or 1) * k


@cache
def pattern(text: str) -> re.Pattern[str]:
    """What a sentence with filled holes looks like; a hole that comes twice holds the same both times."""
    out = ""
    for i, part in enumerate(re.split(r"\{(\w)\}", text)):
        if i % 2 == 0:
            out += re.escape(part)
        elif f"(?P<{part}>" in out:
            out += f"(?P={part})"
        else:
            out += rf"(?P<{part}>\d+)" if part in "ajk" else rf"(?P<{part}>[A-Za-z]+)"
    return re.compile(out)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(1, 9), st.lists(st.integers(1, 8), max_size=3), st.integers(0, 10**6))
def test_the_story_says_what_the_answer_is(num: int, digits: int, steps: list[int], seed: int) -> None:
    tasks = word_problems(num, digits=digits, steps=tuple(steps), seed=seed)
    assert len(tasks) == len({normalised_question(t.question) for t in tasks}) == len({t.id for t in tasks}) == num
    for task in tasks:
        assert str(told(task)) == task.answer == task.intermediate[-1]
        assert len(task.intermediate) == task.difficulty
        assert task.difficulty in (steps or (1, 2, 3, 4))


@pytest.mark.parametrize("steps", range(1, 9))
def test_every_number_of_steps_is_made_and_shared_out_equally(steps: int) -> None:
    tasks = word_problems(101, digits=2, steps=(steps, 9 - steps), seed=0)
    counts = Counter(t.difficulty for t in tasks)
    assert counts == {float(steps): 51, float(9 - steps): 50}


def test_all_worlds_and_all_events_happen() -> None:
    tasks = word_problems(1500, digits=2, seed=0)
    text = " ".join(t.question for t in tasks)
    for world in WORLDS:
        for sentence in (*world.begins, *world.asks, *(text for event in world.events for text in event.texts)):
            assert pattern(sentence).search(text), sentence
    assert "{" not in text
    assert not re.search(r"\b1 (?:dollars|liters|years|hours|boxes|people)\b", text)


def test_people_stay_of_an_age() -> None:
    tasks = [t for t in word_problems(800, digits=3, steps=(3,), seed=1) if "years old" in t.question]
    assert tasks
    assert all(int(result) <= 110 for t in tasks for result in t.intermediate)


def test_equal_seeds_give_equal_problems_and_others_do_not() -> None:
    assert word_problems(40, digits=2, seed=5) == word_problems(40, digits=2, seed=5)
    assert word_problems(40, digits=2, seed=5) != word_problems(40, digits=2, seed=6)


def test_a_program_can_be_made_of_each() -> None:
    for task in word_problems(200, digits=2, steps=(1, 4, 8), seed=0):
        assert program_of(task)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"1 to 8 steps: steps = \[9\]"):
        word_problems(5, digits=2, steps=(9,), seed=0)
    with pytest.raises(ConfigError, match=r"word problems of 1 steps were asked for, only .* raise digits"):
        word_problems(5000, digits=1, steps=(1,), seed=0)
