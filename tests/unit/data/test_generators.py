from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath.core.errors import ConfigError
from agentmath.core.types import Task
from agentmath.data.expressions import exact_value, intermediate_results, number_text, parse_arithmetic
from agentmath.data.generators import arithmetic, two_step
from agentmath.data.mixture import split
from agentmath.data.repeats import normalised_question


def solved(task: Task) -> str:
    assert task.solution is not None
    return number_text(exact_value(parse_arithmetic(task.solution)))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 150), st.integers(1, 9), st.integers(0, 10**6))
def test_every_problem_is_there_once_and_its_answer_is_right(num: int, digits: int, seed: int) -> None:
    for make in (arithmetic, two_step):
        tasks = make(num, digits, seed)
        assert len(tasks) == len({normalised_question(t.question) for t in tasks}) == len({t.id for t in tasks}) == num
        assert all(solved(t) == t.answer == t.intermediate[-1] for t in tasks)


@settings(max_examples=5, deadline=None)
@given(st.integers(2, 200), st.integers(0, 100))
def test_a_split_of_generated_problems_shares_no_problem(held_out: int, seed: int) -> None:
    train, evaluation = split(arithmetic(400, 2, seed), held_out, seed)
    assert (len(train), len(evaluation)) == (400 - held_out, held_out)
    assert not {t.question for t in train} & {t.question for t in evaluation}
    assert not {(t.solution, t.question[:6]) for t in train} & {(t.solution, t.question[:6]) for t in evaluation}


def test_a_worked_example() -> None:
    task = next(t for t in arithmetic(60, 2, 0) if t.question.startswith("What is") and "remainder" not in t.question)
    assert task.solution is not None
    a, b, c = (int(n) for n in task.solution.replace("*", "+").split("+"))
    assert task.question == f"What is {a} * {b} + {c}?"
    assert task.intermediate == (str(a * b), str(a * b + c))


def test_two_steps_are_two_operations_and_nothing_is_negative_or_broken() -> None:
    for task in two_step(500, 2, 1):
        assert task.solution is not None
        assert len(intermediate_results(parse_arithmetic(task.solution))) == 2
        assert task.answer.isdigit()
        assert "{" not in task.question


def test_all_kinds_come_in_equal_shares() -> None:
    starts = [t.solution and "".join(c for c in t.solution if not c.isdigit()) for t in two_step(1000, 2, 0)]
    assert {starts.count(s) for s in set(starts)} == {100}


def test_too_few_different_problems_are_refused() -> None:
    with pytest.raises(ConfigError, match="raise digits"):
        arithmetic(100_000, 1, 0)
