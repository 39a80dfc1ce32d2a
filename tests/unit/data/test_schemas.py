from __future__ import annotations

from typing import Any, Literal

import pytest

from agentmath.config.data import DataSection
from agentmath.core.types import Task
from agentmath.data.files import Fault, Row, RowError
from agentmath.data.schemas import Read, num_steps, read_task

Kind = Literal["gsm8k", "svamp", "question_answer"]
KINDS: tuple[Kind, ...] = ("gsm8k", "svamp", "question_answer")
SVAMP = {
    "ID": "chal-1",
    "Body": "Each pack costs 76 dollars",
    "Question": "How much are 2?",
    "Equation": "( 76.0 * 2.0 )",
    "Answer": 152.0,
    "Type": "Multiplication",
}
WORKED = "He has 2+3=<<2+3=5>>5 and then 5*2=<<5*2=10>>10.\n#### 10"


def read(cells: dict[str, Any], kind: Kind = "question_answer", **settings: Any) -> Read:
    return read_task(Row(cells, "rows.jsonl, line 1", 1), DataSection(name="x", kind=kind, **settings))


def task(cells: dict[str, Any], kind: Kind = "question_answer", **settings: Any) -> Task:
    return read(cells, kind, **settings).task


@pytest.mark.parametrize("kind", ["gsm8k", "question_answer"])
def test_gsm8k_is_read_in_both_shapes(kind: Kind) -> None:
    ours = task({"id": "g-1", "question": "How many?", "solution": WORKED, "answer": "10"}, kind)
    original = task({"question": "How many?", "answer": WORKED}, kind)
    for found in (ours, original):
        assert (found.answer, found.solution, found.intermediate) == ("10", WORKED, ("5", "10"))
    assert (ours.id, original.id, original.source) == ("g-1", "x-1", "x")


def test_a_thousands_comma_stays_and_the_last_mark_counts() -> None:
    assert task({"question": "q", "answer": "#### 1\nno:\n#### 2,125"}).answer == "2,125"


@pytest.mark.parametrize("kind", ["svamp", "question_answer"])
def test_svamp_is_read_in_both_shapes(kind: Kind) -> None:
    found = task(SVAMP, kind)
    assert found.question == "Each pack costs 76 dollars. How much are 2?"
    assert (found.id, found.answer, found.subject) == ("chal-1", "152", "Multiplication")
    assert (found.solution, found.intermediate) == ("( 76.0 * 2.0 )", ("152",))
    ours = {"question": found.question, "body": "b", "ask": "a", "equation": "( 76.0 * 2.0 )", "answer": "152"}
    assert task(ours, kind).question == found.question


def test_math_is_read_with_its_level_and_subject() -> None:
    original = {
        "problem": r"What is $\frac{2}{4}$?",
        "level": "Level 5",
        "type": "Prealgebra",
        "solution": r"First \boxed{2}, then $\frac{2}{4}=\boxed{\frac{1}{2}}$.",
    }
    found = task(original)
    assert (found.answer, found.difficulty, found.subject) == (r"\frac{1}{2}", 5.0, "Prealgebra")
    assert found.solution == original["solution"]
    newer = {
        "problem": "q",
        "answer": "7",
        "solution": r"\boxed{8}",
        "subject": "Algebra",
        "level": 2,
        "unique_id": "a/1",
    }
    found = task(newer)
    assert (found.answer, found.difficulty, found.subject, found.id) == ("7", 2.0, "Algebra", "a/1")


@pytest.mark.parametrize(("value", "text"), [("035", "035"), (35, "35"), (35.0, "35"), (0.5, "0.5"), (-7, "-7")])
def test_whole_numbers_and_text_may_be_mixed_in_one_column(value: object, text: str) -> None:
    assert task({"ID": "2024-I-1", "Problem": "q", "Solution": "s", "Answer": value}).answer == text


@pytest.mark.parametrize("value", [["3"], [3], [3.0]])
def test_a_list_of_one_answer_is_that_answer(value: object) -> None:
    assert task({"question": "q", "answer": value}).answer == "3"


DAPO = (
    "Work out the problem below. Your response ends with a line of the form Answer: $Answer for the result.\n\n"
    'How many of the numbers 1 to 9 are even?\n\nMind to write the answer behind "Answer:".'
)
MESSAGES = [{"role": "user", "content": DAPO}]


@pytest.mark.parametrize(
    "cells",
    [
        {"prompt": MESSAGES, "label": "4"},
        {"prompt": DAPO, "label": 4},
        {"prompt": MESSAGES, "reward_model": {"ground_truth": "4", "style": "rule"}, "extra_info": {"index": "a"}},
        {"prompt": DAPO, "solution": "4", "reward_model": {"ground_truth": "4"}},
        {"prompt": [{"role": "system", "content": "Think."}, *MESSAGES], "label": ["4"]},
    ],
)
def test_rows_of_other_trainers_are_read_without_their_instructions(cells: dict[str, Any]) -> None:
    found = read(cells)
    assert (found.task.question, found.task.answer) == ("How many of the numbers 1 to 9 are even?", "4")
    assert found.has_instructions
    assert read(cells, instructions="keep").task.question == DAPO


@pytest.mark.parametrize("question", ["question", "Problem", "prompt"])
@pytest.mark.parametrize("answer", ["answer", "label", "ground_truth", "Final_Answer", "expected_answer"])
def test_columns_go_by_several_names(question: str, answer: str) -> None:
    found = task({question: " 1+1? ", answer: 2})
    assert (found.question, found.answer) == ("1+1?", "2")


def test_columns_may_be_named_and_lie_within_others() -> None:
    cells = {"question": "no", "Input": "1+1?", "extra_info": {"gold": 2, "pass_rate": 0.25}, "a.b": "3"}
    named: dict[str, Any] = {
        "question_column": "input",
        "answer_column": "extra_info.gold",
        "difficulty_column": "extra_info.pass_rate",
    }
    found = read(cells, **named)
    assert (found.task.question, found.task.answer, found.task.difficulty) == ("1+1?", "2", 0.25)
    assert task(cells, answer_column="a.b").answer == "3"


def test_an_answer_column_may_hold_a_box_or_a_whole_solution() -> None:
    assert task({"question": "q", "answer": r"$\boxed{7}$"}).answer == "7"
    worked = r"We see \boxed{1}. No: \boxed{x=7}."
    found = task({"question": "q", "answer": worked})
    assert (found.answer, found.solution) == ("x=7", worked)


@pytest.mark.parametrize(
    ("stated", "number"),
    [("Level 5", 5.0), (3, 3.0), (0.125, 0.125), ("Level ?", None), ("hard", None), ("3 of 8", None), (None, None)],
)
def test_a_difficulty_is_a_number_or_one_behind_words(stated: object, number: float | None) -> None:
    assert task({"question": "q", "answer": "1", "level": stated}).difficulty == number


@pytest.mark.parametrize(
    ("kind", "row", "fault", "says"),
    [
        ("question_answer", {"question": "q"}, Fault.NO_COLUMN, "no answer: expected a column 'answer' or 'label'"),
        ("question_answer", {"answer": "1"}, Fault.NO_COLUMN, "no question: expected a column 'question' or 'problem'"),
        ("question_answer", {}, Fault.NO_COLUMN, "found none"),
        ("question_answer", {"question": "q", "answer": None}, Fault.NULL, "'answer': expected the answer, found null"),
        (
            "question_answer",
            {"question": None, "answer": 1},
            Fault.NULL,
            "'question': expected the question, found null",
        ),
        ("question_answer", {"question": "q", "answer": " "}, Fault.EMPTY, "found empty text"),
        ("question_answer", {"question": "q", "answer": [1, 2]}, Fault.WRONG_TYPE, "a list of 2: write it as one text"),
        ("question_answer", {"question": "q", "answer": []}, Fault.WRONG_TYPE, "a list of 0"),
        ("question_answer", {"question": "q", "answer": [[1]]}, Fault.WRONG_TYPE, "found a list"),
        ("question_answer", {"question": "q", "answer": {"a": 1}}, Fault.WRONG_TYPE, "found an object"),
        ("question_answer", {"question": "q", "answer": True}, Fault.WRONG_TYPE, "found true or false"),
        ("question_answer", {"question": "q", "answer": float("nan")}, Fault.WRONG_TYPE, "found nan"),
        ("question_answer", {"question": "q", "answer": float("inf")}, Fault.WRONG_TYPE, "found inf"),
        ("question_answer", {"question": "q\ud800", "answer": "1"}, Fault.NOT_TEXT, "surrogate"),
        (
            "question_answer",
            {"question": "q", "answer": "1" * 10_001},
            Fault.TOO_LONG,
            "an answer of 10,001 characters",
        ),
        (
            "question_answer",
            {"question": "q" * 20_001, "answer": "1"},
            Fault.TOO_LONG,
            "a question of 20,001 characters",
        ),
        ("question_answer", {"prompt": [{"role": "system"}], "answer": "1"}, Fault.EMPTY, "a message of role 'user'"),
        ("question_answer", {"prompt": [{"role": "user"}], "answer": "1"}, Fault.NO_COLUMN, "no message"),
        ("question_answer", {"prompt": [], "answer": "1"}, Fault.EMPTY, "a message of role 'user'"),
        ("question_answer", {"question": "q", "reward_model": {}}, Fault.NO_COLUMN, "'reward_model': no answer"),
        ("question_answer", {"question": "q", "solution": "So 4."}, Fault.NO_ANSWER, "found neither"),
        ("question_answer", {"question": "q", "solution": r"\boxed{4"}, Fault.NO_ANSWER, "found neither"),
        ("gsm8k", {"question": "q", "answer": "no mark"}, Fault.NO_ANSWER, "behind '#### '"),
        ("gsm8k", {"question": "q", "solution": "s"}, Fault.NO_COLUMN, "no answer"),
        ("gsm8k", {"question": "q", "solution": None, "answer": "3"}, Fault.NO_ANSWER, "behind '#### '"),
        ("svamp", {"question": "q", "answer": 1}, Fault.NO_COLUMN, "no equation"),
        (
            "svamp",
            {"question": "q", "answer": 1, "equation": "exit()"},
            Fault.WRONG_TYPE,
            "expected arithmetic such as",
        ),
    ],
)
def test_a_fault_names_the_place_the_column_and_what_was_expected(
    kind: Kind, row: dict[str, Any], fault: Fault, says: str
) -> None:
    with pytest.raises(RowError) as caught:
        read(row, kind)
    assert str(caught.value).startswith("rows.jsonl, line 1")
    assert says in str(caught.value)
    assert (caught.value.fault, caught.value.number) == (fault, 1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"question_column": "ask"}, "no question: expected a column 'ask', found 'question', 'answer', 'extra'"),
        ({"answer_column": "extra.gold"}, "column 'extra': no answer: expected a column 'gold', found none"),
        ({"answer_column": "answer.gold"}, "column 'answer': expected an object that holds 'answer.gold'"),
        ({"difficulty_column": "rate"}, "no difficulty: expected a column 'rate'"),
        ({"difficulty": (1.0, 2.0)}, "no difficulty: expected a column 'difficulty' or 'level'"),
    ],
)
def test_a_column_that_was_asked_for_must_be_there(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(RowError, match=says):
        read({"question": "q", "answer": "1", "extra": {}}, **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", [None, True, 3, 1e300, "", "x", "\ud800", [], [None], {}, {"a": []}, [[["x"]]], b"x"])
@pytest.mark.parametrize(
    "column", ["question", "answer", "solution", "level", "reward_model", "body", "id", "equation"]
)
def test_whatever_stands_in_a_cell_a_row_is_read_or_refused(kind: Kind, column: str, cell: object) -> None:
    row = {"question": "q", "answer": "1", "solution": "s", "level": 1, "equation": "1+1"} | {column: cell}
    try:
        assert task(row, kind).question
    except RowError as error:
        assert str(error).startswith("rows.jsonl, line 1")


def test_steps_are_marks_or_operations() -> None:
    assert num_steps(task({"question": "q", "answer": WORKED})) == 2
    assert num_steps(Task(id="1", question="q", answer="1", solution="( ( 1 + 2 ) * 3 )")) == 2
    assert num_steps(Task(id="1", question="q", answer="1", solution="Let x be...")) is None
    assert num_steps(Task(id="1", question="q", answer="1")) is None
