from __future__ import annotations

from typing import Any

import pytest

from agentmath.core.errors import DataError
from agentmath.data.files import Row
from agentmath.data.searched_text import answer_of, column_texts, id_of, question_of


def row(**cells: Any) -> Row:
    return Row(cells, "f.jsonl, line 3", 3)


@pytest.mark.parametrize(
    ("cells", "question"),
    [
        ({"question": " How many? "}, "How many?"),
        ({"Problem": "How many?"}, "How many?"),
        ({"prompt": [{"role": "system", "content": "be"}, {"role": "user", "content": "How?"}]}, "How?"),
        ({"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]}, "A"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "A"}]}]}, "text\n\nA"),
        ({"conversations": [{"from": "human", "value": "A"}, {"from": "gpt", "value": "B"}]}, "A"),
        ({"question": ["How many?"]}, "How many?"),
        ({"Body": "Ann has 3.", "Question": "How many?"}, "Ann has 3. How many?"),
    ],
)
def test_the_question_is_found_in_the_forms_that_files_have(cells: dict[str, Any], question: str) -> None:
    assert question_of(row(**cells)) == question


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"text": "x"}, "no question: expected a column"),
        ({"question": None}, "found null"),
        ({"question": " "}, "found empty text"),
        ({"question": {"a": 1}}, "expected text or a number"),
        ({"messages": []}, "a user says something"),
        ({"messages": [3, {"role": "user"}, {"role": "assistant", "content": "B"}]}, "a user says something"),
        ({"question": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_a_row_that_asks_nothing_is_an_error_with_its_place(cells: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=f"f.jsonl, line 3.*{said}"):
        question_of(row(**cells))


def test_all_text_of_a_named_column_is_searched() -> None:
    nested = {"steps": ["a", {"b": "c", "n": 3}], "end": None}
    assert column_texts(row(Solution=nested, note="n"), ["solution", "absent"]) == {"solution": "a\n\nc"}


@pytest.mark.parametrize(
    ("cells", "answer"),
    [
        ({"answer": " 7 "}, "7"),
        ({"answer": 7}, "7"),
        ({"answer": "Add.\n#### 7"}, "7"),
        ({"answer": r"So it is \boxed{\frac12}."}, r"\frac12"),
        ({"reward_model": {"ground_truth": "7"}}, "7"),
        ({"answer": ["7"]}, None),
        ({"answer": None}, None),
        ({"answer": True}, None),
        ({}, None),
        ({"answer": " "}, None),
    ],
)
def test_the_answer_is_found_where_there_is_one(cells: dict[str, Any], answer: str | None) -> None:
    assert answer_of(row(**cells)) == answer


def test_a_row_without_an_id_is_called_by_its_place() -> None:
    assert id_of(row(ID=4)) == "4"
    assert id_of(row(id=None)) == id_of(row()) == "f.jsonl, line 3"
