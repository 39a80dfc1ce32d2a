from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmath.cli import graded_rows
from agentmath.cli.main import main

GOOD = {"gold": "42", "prediction": "42", "form": "answer"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[dict[str, Any]], str]:
    with pytest.raises(SystemExit) as ended:
        main(["grade", *arguments])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    return [json.loads(line) for line in printed.out.splitlines()], printed.err


def file_of(folder: Path, *lines: bytes | dict[str, Any]) -> str:
    path = folder / "rows.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return str(path)


def test_each_row_gives_one_line_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {**GOOD, "id": "a", "match": True},
        {"gold": r"\sqrt{8}", "prediction": r"So \boxed{2\sqrt{2}}.", "form": "text", "match": True},
        {"gold": "7", "prediction": "8", "id": 3, "match": True},
        {"gold": "18", "prediction": "The answer is 18.", "form": "box"},
    ]
    lines, summary = run(capsys, file_of(tmp_path, *rows))
    assert lines == [
        {"id": "a", "match": True, "extracted": "42", "rule": "number", "error": None},
        {"match": True, "extracted": r"2\sqrt{2}", "rule": "number", "error": None},
        {"id": 3, "match": False, "extracted": "8", "rule": "number", "error": None},
        {"match": False, "extracted": None, "rule": "no-answer", "error": None},
    ]
    assert "2 right, 2 wrong, 0 without a verdict" in summary
    assert "2 of 3 agree with the row's match" in summary
    assert "answers/s" in summary


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "expected a JSON object"),
        (b"[1, 2]", "found a list"),
        (b"[" * 100_000, "expected a JSON object"),
        (b"\xff\xfe", "no UTF-8"),
        ({"prediction": "1"}, '"gold" is missing; the keys are prediction'),
        ({"gold": "1"}, '"prediction" is missing'),
        ({"gold": 42, "prediction": "1"}, '"gold" must be a text, found 42'),
        ({"gold": ["1"], "prediction": "1"}, '"gold" must be a text'),
        ({"gold": "1", "prediction": None}, '"prediction" must be a text, found null'),
        ({"gold": "1", "prediction": "\ud800"}, "lone surrogate"),
        ({**GOOD, "form": "box!"}, '"form" must be one of box, text, answer, found "box!"'),
        ({**GOOD, "form": ["box"]}, '"form" must be one of'),
        (b'{"gold": ' + b"9" * 5000 + b"}", "expected a JSON object"),
    ],
)
def test_a_bad_row_gets_its_own_line_and_the_rest_is_graded(
    line: bytes | dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, GOOD, b"", line, GOOD)
    lines, summary = run(capsys, path)
    assert [row["match"] for row in lines] == [True, None, True]
    assert lines[1]["error"].startswith(f"{path}, line 3: ")
    assert words in lines[1]["error"]
    assert "1 bad rows, 0 lost by the grader" in summary


def test_a_line_that_is_too_long_is_skipped_without_being_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graded_rows, "MAX_ROW_BYTES", 100)
    lines, _ = run(capsys, file_of(tmp_path, GOOD, b"x" * 100_000, GOOD))
    assert [row["match"] for row in lines] == [True, None, True]
    assert "longer than 100 bytes" in lines[1]["error"]


def test_standard_input_and_gzip_are_read_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert [row["match"] for row in run(capsys, str(path))[0]] == [True]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())))
    assert [row["match"] for row in run(capsys, "-")[0]] == [True]


def test_a_file_without_rows_is_a_file_without_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, file_of(tmp_path))[0] == []


def test_the_switches_can_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"gold": r"28\%", "prediction": "0.28"}, {"gold": "1/2", "prediction": "2/4"}]
    path = file_of(tmp_path, *rows)
    assert [r["match"] for r in run(capsys, path)[0]] == [False, True]
    flags = ("--accept-percent-as-fraction", "--no-accept-unreduced")
    assert [r["match"] for r in run(capsys, path, *flags)[0]] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere.jsonl"], 3, "nowhere.jsonl cannot be read"),
        (["x.jsonl", "--answer-seconds", "0"], 2, "--answer-seconds 0.0: must be a number, greater than 0"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["grade", *arguments])
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (code, 1)
    assert words in said


def test_a_broken_gzip_file_is_an_error_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode() * 1000)[:-20])
    with pytest.raises(SystemExit) as ended:
        main(["grade", str(path)])
    assert ended.value.code == 3
    assert "cannot be read on" in capsys.readouterr().err


def test_reading_is_a_stream() -> None:
    class Endless(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            return json.dumps(GOOD).encode() + b"\n"

    lines = graded_rows.numbered_lines(Endless(), "-")
    assert [next(lines)[0] for _ in range(3)] == [f"standard input, line {n}" for n in (1, 2, 3)]


def test_ctrl_c_ends_it_without_a_traceback_and_leaves_no_worker(tmp_path: Path) -> None:
    slow = {"gold": "x", "prediction": r"x+\binom{1000000000}{500000000}"}
    path = file_of(tmp_path, *([slow] * 3))
    command = [sys.executable, "-m", "agentmath", "grade", path, "--answer-seconds", "60"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    workers = _wait_for_workers(process.pid)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said and "stopped by" in said
    _wait_for_the_end_of(workers)


def _wait_for_the_end_of(pids: list[str]) -> None:
    """One that was just being started ends by itself once it is up and finds its input closed."""
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, f"still there: {pids}"
        time.sleep(0.05)


def _wait_for_workers(pid: int) -> list[str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list(_children(pid))
        if len(found) == 2:
            return found
        time.sleep(0.05)
    raise AssertionError("no worker was started")


def _children(pid: int) -> Iterator[str]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from (task / "children").read_text().split()
