"""agentmath replay, as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentmath.cli.main import main

GOOD = {"id": "a", "dialect": "agentmath", "completion": ["<code>print(6*7)</code>", "\\boxed{42}"]}


def replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[Any], *words: str
) -> tuple[int, list[Any], str]:
    """(exit code, lines, summary) of the command on a file with these rows; a text is a line as it stands."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(path), *words])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), [json.loads(line) for line in printed.out.splitlines()], printed.err


def test_every_row_gives_its_line_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = {"dialect": "agentmath", "completion": "<code>import time; time.sleep(0.3)</code>"}
    rows = [GOOD, "{not json", slow, {"dialect": "xml", "completion": ""}, "[1]", GOOD | {"id": 7}]
    code, lines, summary = replay(tmp_path, capsys, rows)
    assert code == 0
    assert lines[0] == {
        "id": "a",
        "n_code_blocks": 1,
        "executed": ["print(6*7)"],
        "outputs": ["42\n"],
        "truncated": False,
        "final_answer": "42",
        "format_ok": True,
        "stop_reason": "answer",
        "faults": [],
        "error": None,
    }
    assert [line["id"] for line in lines] == ["a", 2, 3, 4, 5, 7]
    assert [line["error"] is None for line in lines] == [True, False, True, False, False, True]
    assert "line 2: not JSON" in lines[1]["error"]
    assert "no dialect 'xml'; known:" in lines[3]["error"]
    assert lines[2]["stop_reason"] == "code"
    assert summary.startswith("6 rows in ")
    assert "3 of them bad; 3 programs run" in summary
    assert "Traceback" not in summary


def test_more_rows_than_are_in_flight_keep_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": n, "dialect": "markdown", "completion": f"\\boxed{{{n}}}"} for n in range(50)]
    code, lines, _ = replay(tmp_path, capsys, rows)
    assert code == 0
    assert [(line["id"], line["final_answer"]) for line in lines] == [(n, str(n)) for n in range(50)]


def test_check_tells_what_differs_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {"n_code_blocks": 1, "outputs": ["42\n"], "final_answer": "42", "stop_reason": "answer"}
    rows = [
        GOOD | {"expected": expected},
        GOOD | {"expected": expected | {"final_answer": "41", "never_in_kept_text": ["print"]}},
        GOOD | {"expected": expected | {"final_answer": "41", "also_ok": [{"final_answer": "42"}]}},
        GOOD | {"expected": expected | {"outputs": ["a word or two"]}},
        GOOD | {"expected": expected | {"outputs": ["41\n"]}},
        GOOD,
    ]
    code, lines, summary = replay(tmp_path, capsys, rows, "--check", "--json")
    assert code == 1
    assert [line.get("agrees") for line in lines] == [True, False, True, True, False, None]
    assert lines[1]["differs"] == ["final_answer", "never_in_kept_text"]
    assert lines[4]["differs"] == ["outputs"]
    counts = json.loads(summary)
    assert (counts["rows"], counts["compared"], counts["agreeing"], counts["programs"]) == (6, 5, 3, 6)
    code, lines, _ = replay(tmp_path, capsys, rows)
    assert code == 0
    assert not any("agrees" in line for line in lines)


@pytest.mark.parametrize(("content", "says"), [("", "is empty"), (None, "does not exist")])
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(path)])
    assert ended.value.code == 3
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1
