from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from agentmath.core.errors import DataError
from agentmath.core.types import Demonstration
from agentmath.data.sft_files import read_demonstrations
from agentmath.formats.dialects import DIALECTS

USER = {"role": "user", "content": " 6*7? "}
ONE_CALL = "<think>t</think><code>print(6*7)</code>\n<interpreter>\n42\n</interpreter>\n\\boxed{42}"


def read(tmp_path: Path, *rows: dict[str, Any]) -> list[Demonstration]:
    path = tmp_path / "sft.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_demonstrations(str(path))


def talk(*contents: str, **columns: Any) -> dict[str, Any]:
    return {"messages": [USER, *({"role": "assistant", "content": c} for c in contents)], **columns}


def test_output_blocks_part_the_turns_and_are_not_in_them(tmp_path: Path) -> None:
    found = read(tmp_path, talk(ONE_CALL, id=5))[0]
    assert found.turns == ("<think>t</think><code>print(6*7)</code>", r"\boxed{42}")
    assert found.outputs == ("42",)
    assert (found.task.id, found.task.question, found.task.answer) == ("5", "6*7?", "42")


def test_messages_of_a_tool_are_outputs_too(tmp_path: Path) -> None:
    row = talk()
    row["messages"] += [
        {"role": "assistant", "content": "<code>print(6*7)</code>"},
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": r"\boxed{42}"},
    ]
    row["messages"].insert(0, {"role": "system", "content": "Be brief."})
    found = read(tmp_path, row)[0]
    assert (found.turns, found.outputs) == (("<code>print(6*7)</code>", r"\boxed{42}"), ("42",))


def test_programs_without_outputs_are_left_to_be_run(tmp_path: Path) -> None:
    found = read(tmp_path, talk("<code>x=1</code><code>print(x)</code>\\boxed{1}"))[0]
    assert (found.turns, found.outputs) == (("<code>x=1</code>", "<code>print(x)</code>", r"\boxed{1}"), ())


def test_a_direct_answer_is_one_turn_and_the_answer_column_comes_first(tmp_path: Path) -> None:
    found = read(tmp_path, talk("It is \\boxed{42}.", answer=43))[0]
    assert (found.turns, found.outputs, found.task.answer) == (("It is \\boxed{42}.",), (), "43")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "x"}, "expected a column 'messages'"),
        ({"messages": []}, "expected a list of"),
        ({"messages": "x"}, "expected a list of"),
        ({"messages": ["x"]}, "message 1: expected"),
        ({"messages": [{"role": "user", "content": None}]}, "expected text as content"),
        ({"messages": [USER]}, "an answer of role 'assistant'"),
        ({"messages": [USER, USER]}, "message 2 of role 'user'"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "message 1 of role 'assistant'"),
        (talk("no box"), "without an answer"),
        (talk("<interpreter>1</interpreter>\\boxed{1}"), "without a program"),
        (talk("<code>1</code><interpreter>1\\boxed{1}"), "not closed"),
        (talk("<code>1</code> is <interpreter>1</interpreter>\\boxed{1}"), "without a program"),
        (talk("\\boxed{1}<code>1</code>"), "ends with a program"),
        (talk("\\boxed{1}<code>1</code><interpreter>1</interpreter>"), "ends with a program"),
        (talk("<code>1</code><code>2</code><interpreter>2</interpreter>\\boxed{1}"), "all of them or none"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read(tmp_path, talk(ONE_CALL), row)
    assert "sft.jsonl, line 2" in str(caught.value)


def record(**changes: Any) -> dict[str, Any]:
    row = {
        "task_id": "t-1",
        "question": "6*7?",
        "gold": "42",
        "turn_texts": ["<code>print(6*7)</code>", "\\boxed{42}<|im_end|>"],
        "outputs": ["42"],
        "reward_parts": [("accuracy", 1.0), ("tool", 0.11)],
    }
    return {**row, **changes}


def write_records(path: Path, *rows: dict[str, Any]) -> str:
    text = pyarrow.list_(pyarrow.string())
    schema = pyarrow.schema(
        [
            *((name, pyarrow.string()) for name in ("task_id", "question", "gold")),
            ("turn_texts", text),
            ("outputs", text),
            ("reward_parts", pyarrow.map_(pyarrow.string(), pyarrow.float64())),
        ]
    )
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), path)
    return str(path)


def test_right_trajectories_of_a_run_become_demonstrations(tmp_path: Path) -> None:
    wrong = record(reward_parts=[("accuracy", 0.0)])
    unscored = record(reward_parts=[])
    unfinished = record(outputs=["42", "43"])
    path = write_records(tmp_path / "t.parquet", wrong, record(), unscored, unfinished)
    found = read_demonstrations(path)
    assert len(found) == 1
    assert found[0].turns == ("<code>print(6*7)</code>", r"\boxed{42}")
    assert found[0].outputs == ("42",)
    assert (found[0].task.id, found[0].task.answer) == ("t-1", "42")


def test_a_run_without_any_right_trajectory_teaches_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no recorded trajectory"):
        read_demonstrations(write_records(tmp_path / "t.parquet", record(reward_parts=[("accuracy", 0.0)])))


EXCHANGES = {
    "agentmath": ONE_CALL,
    "markdown": "t\n```python\nprint(6*7)\n```\n```output\n42\n```\n\\boxed{42}",
    "dual_agent": "Reasoning Agent: t\n[CODE_START]\nCode Agent:\nprint(6*7)\n[CODE_END]\n"
    "Sandbox execution result: 42\nReasoning Agent: The final answer is 42.",
    "tool_call": '<tool_call>\n{"name": "code", "arguments": {"code": "print(6*7)"}}\n</tool_call>\n'
    "<tool_response>\n42\n</tool_response>\n\\boxed{42}",
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_conversations_are_read_in_the_dialect(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text(json.dumps(talk(EXCHANGES[name])) + "\n", encoding="utf-8")
    dialect = DIALECTS[name]
    found = read_demonstrations(str(path), dialect)[0]
    assert found.outputs == ("42",)
    assert found.task.answer == "42"
    assert len(found.turns) == 2
    assert dialect.read(found.turns[0], in_think=False).source == "print(6*7)"


@pytest.mark.parametrize("name", EXCHANGES)
def test_records_of_a_run_lose_what_the_dialect_puts_round_an_output(tmp_path: Path, name: str) -> None:
    dialect = DIALECTS[name]
    turns = [dialect.write_call("t", "print(6*7)"), dialect.write_answer("", "42")]
    path = write_records(tmp_path / "t.parquet", record(turn_texts=turns, outputs=[dialect.wrap("42")]))
    found = read_demonstrations(path, dialect)[0]
    assert (found.turns, found.outputs) == (tuple(turns), ("42",))
