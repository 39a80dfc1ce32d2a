from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError, DataError
from agentmath.core.types import Task
from agentmath.data.sources import load_source, num_steps

Kind = Literal["gsm8k", "svamp", "question_answer"]
SVAMP = {
    "ID": "chal-1",
    "Body": "Each pack costs 76 dollars",
    "Question": "How much are 2?",
    "Equation": "( 76.0 * 2.0 )",
    "Answer": 152.0,
}
WORKED = "He has 2+3=<<2+3=5>>5 and then 5*2=<<5*2=10>>10.\n#### 10"


def load(tmp_path: Path, kind: Kind, *rows: dict[str, Any], **settings: Any) -> list[Task]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_source(DataSection(name="x", kind=kind, path=str(path), **settings), seed=0)


def test_gsm8k_is_read_in_both_shapes(tmp_path: Path) -> None:
    ours = load(tmp_path, "gsm8k", {"id": "g-1", "question": "How many?", "solution": WORKED, "answer": "10"})
    original = load(tmp_path, "gsm8k", {"question": "How many?", "answer": WORKED})
    assert [t.answer for t in (*ours, *original)] == ["10", "10"]
    assert [t.solution for t in (*ours, *original)] == [WORKED, WORKED]
    assert ours[0].intermediate == ("5", "10")
    assert (ours[0].id, original[0].id, original[0].source) == ("g-1", "x-1", "x")


def test_svamp_is_read_in_both_shapes(tmp_path: Path) -> None:
    task = load(tmp_path, "svamp", SVAMP)[0]
    assert task.question == "Each pack costs 76 dollars. How much are 2?"
    assert (task.id, task.answer, task.solution, task.intermediate) == ("chal-1", "152", "( 76.0 * 2.0 )", ("152",))
    ours = {"question": task.question, "body": "b", "ask": "a", "equation": "( 76.0 * 2.0 )", "answer": "152"}
    assert load(tmp_path, "svamp", ours)[0].question == task.question


@pytest.mark.parametrize("question", ["question", "Problem", "prompt"])
@pytest.mark.parametrize("answer", ["answer", "label", "ground_truth"])
def test_columns_go_by_several_names(tmp_path: Path, question: str, answer: str) -> None:
    task = load(tmp_path, "question_answer", {question: " 1+1? ", answer: 2})[0]
    assert (task.question, task.answer) == ("1+1?", "2")


def test_rows_of_other_trainers_are_read(tmp_path: Path) -> None:
    row = {"prompt": [{"role": "user", "content": "1+1?"}], "reward_model": {"ground_truth": "2", "style": "rule"}}
    assert load(tmp_path, "question_answer", row)[0].answer == "2"


@pytest.mark.parametrize(("value", "text"), [(34, "34"), (34.0, "34"), (0.5, "0.5"), ("033", "033"), (-7, "-7")])
def test_numbers_become_text(tmp_path: Path, value: object, text: str) -> None:
    assert load(tmp_path, "question_answer", {"question": "q", "answer": value})[0].answer == text


@pytest.mark.parametrize(
    ("kind", "row", "says"),
    [
        ("question_answer", {"question": "q"}, "line 1: a dataset without answers: expected a column 'answer' or"),
        ("question_answer", {"answer": "1"}, "line 1: no question: expected a column 'question' or 'problem'"),
        ("question_answer", {"question": "q", "answer": None}, "column 'answer': expected the answer, found null"),
        ("question_answer", {"question": "q", "answer": " "}, "found empty text"),
        ("question_answer", {"question": "q", "answer": [1]}, "expected text or a number, found a list"),
        ("question_answer", {"question": "q", "answer": True}, "found true or false"),
        ("question_answer", {"question": "q", "answer": float("nan")}, "expected text or a number, found nan"),
        ("question_answer", {"question": "q\ud800", "answer": "1"}, "surrogate"),
        ("question_answer", {"prompt": [{"role": "system"}], "answer": "1"}, "a message of role 'user'"),
        ("question_answer", {"question": "q", "reward_model": {}}, "column 'reward_model': no answer"),
        ("gsm8k", {"question": "q", "answer": "no mark"}, "behind '#### '"),
        ("gsm8k", {"question": "q", "solution": "s"}, "no answer"),
        ("svamp", {"question": "q", "answer": 1}, "no equation"),
        ("svamp", {"question": "q", "answer": 1, "equation": "exit()"}, "expected arithmetic such as"),
    ],
)
def test_a_fault_names_line_column_and_what_was_expected(
    tmp_path: Path, kind: Kind, row: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataError, match=says) as caught:
        load(tmp_path, kind, row)
    assert "rows.jsonl, line 1" in str(caught.value)


def test_only_rows_with_the_wanted_number_of_steps_are_kept(tmp_path: Path) -> None:
    one = {"question": "q", "answer": "2*3 = <<2*3=6>>6\n#### 6"}
    two = {"question": "r", "answer": WORKED}
    assert [t.question for t in load(tmp_path, "gsm8k", one, two, one, two, steps=(2,))] == ["r", "r"]
    with pytest.raises(DataError, match="no row of"):
        load(tmp_path, "gsm8k", one, steps=(2,))
    assert num_steps(Task(id="1", question="q", answer="1", solution="( ( 1 + 2 ) * 3 )")) == 2
    assert num_steps(Task(id="1", question="q", answer="1", solution="Let x be...")) is None


def test_max_tasks_bounds_the_rows_and_ids_stay_unique(tmp_path: Path) -> None:
    rows = [{"id": 7, "question": f"q{i}", "answer": i} for i in range(5)]
    assert [t.id for t in load(tmp_path, "question_answer", *rows, max_tasks=3)] == ["7", "7#2", "7#3"]


def test_generators_need_a_number_and_files_a_path() -> None:
    with pytest.raises(ConfigError, match="set max_tasks"):
        load_source(DataSection(name="x", kind="arithmetic"), seed=0)
    with pytest.raises(ConfigError, match=r"--data\.x\.path FILE"):
        load_source(DataSection(name="x", kind="svamp"), seed=0)
    tasks = load_source(DataSection(name="x", kind="two_step", max_tasks=9), seed=3)
    assert [t.source for t in tasks] == ["x"] * 9


@pytest.mark.parametrize(
    ("name", "kind", "num"),
    [
        ("svamp.jsonl", "svamp", 1000),
        ("svamp.jsonl", "question_answer", 1000),
        ("gsm8k_test.jsonl", "gsm8k", 1319),
        ("multiarith.jsonl", "question_answer", 600),
        ("math500.jsonl", "question_answer", 500),
        ("aime2024.jsonl", "question_answer", 30),
    ],
)
def test_real_files_are_read(name: str, kind: Kind, num: int, real_file: Callable[[str], Path]) -> None:
    tasks = load_source(DataSection(name="x", kind=kind, path=str(real_file(name))), seed=0)
    assert len(tasks) == len({t.id for t in tasks}) == num
    assert all(t.question and t.answer for t in tasks)
