from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.types import Task
from agentmath.data.repeats import contradict, normalised_question, without_repeats


def asked(*rows: tuple[str, str]) -> list[Task]:
    return [Task(id=str(i), question=question, answer=answer) for i, (question, answer) in enumerate(rows)]


def test_questions_are_equal_up_to_case_blanks_and_stops_but_not_signs() -> None:
    assert normalised_question("How many  pens,\nTom? ") == normalised_question("how many pens Tom")
    assert normalised_question("What is 3 * 4 + 5?") != normalised_question("What is 3 + 4 * 5?")
    assert normalised_question("x = -1.5") != normalised_question("x = 1.5")
    assert normalised_question("\uff11 + 1") == normalised_question("1 + 1")


def test_the_first_of_repeated_rows_stays() -> None:
    found = without_repeats(asked(("Why?", "1/2"), ("why", r"\frac{1}{2}"), ("Who?", "3"), ("WHY?", "0.5")))
    assert [(t.id, t.answer) for t in found.tasks] == [("0", "1/2"), ("2", "3")]
    assert (found.num_repeats, found.num_conflicting) == (2, 0)


def test_a_question_with_different_numbers_as_answers_goes_altogether() -> None:
    found = without_repeats(asked(("a", "1"), ("b", "2"), ("A", "3"), ("a?", "1"), ("b", "2")))
    assert [t.id for t in found.tasks] == ["1"]
    assert (found.num_repeats, found.num_conflicting) == (1, 3)


def test_only_numbers_contradict_each_other() -> None:
    assert contradict("1", "2")
    assert contradict("1,000", "1001")
    assert not contradict("1,000", "1000")
    assert not contradict("x + 1", "1 + x")
    assert not contradict("7", r"\sqrt{49}")


def test_reading_stops_as_soon_as_enough_was_found() -> None:
    rows = iter(asked(("a", "1"), ("a", "1"), ("b", "1"), ("c", "1")))
    assert [t.question for t in without_repeats(rows, 2).tasks] == ["a", "b"]
    assert [t.question for t in rows] == ["c"]


@given(st.lists(st.tuples(st.sampled_from("abcdAB"), st.sampled_from(["1", "2", "1.0", "x"])), max_size=30))
def test_every_row_is_kept_or_counted(rows: list[tuple[str, str]]) -> None:
    found = without_repeats(asked(*rows))
    assert len(found.tasks) + found.num_repeats + found.num_conflicting == len(rows)
    assert len({normalised_question(t.question) for t in found.tasks}) == len(found.tasks)
