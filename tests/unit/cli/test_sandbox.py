"""agentmath sandbox: what programs print, how they ended, and how the process ends."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentmath.cli import isolation, snippets
from agentmath.cli.main import main
from agentmath.core.types import ToolStatus
from agentmath.sandbox import latency
from agentmath.sandbox.layers import LEAVES_OPEN, Layer

FIELDS = {
    *("file", "status", "exit_code", "signal", "stdout", "stderr", "stdout_bytes", "stderr_bytes", "value", "error"),
    *("cpu_seconds", "wall_seconds", "queue_seconds", "peak_memory_bytes", "layers"),
}
Capture = pytest.CaptureFixture[str]
Save = Callable[..., str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(code: str | bytes, name: str = "a.py") -> str:
        path = tmp_path / name
        path.write_bytes(code if isinstance(code, bytes) else code.encode())
        return str(path)

    return write


@pytest.fixture
def never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line is wrong before anything runs."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("no sandbox was to be opened")

    monkeypatch.setattr(snippets, "open_sandbox", refuse)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["sandbox", *arguments])
    return int(caught.value.code or 0)


def json_lines(capsys: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def stand_in_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_output_goes_where_it_was_written_and_the_status_to_stderr(save: Save, capsys: Capture) -> None:
    path = save("import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert exit_code("run", path) == 0
    told = capsys.readouterr()
    assert told.out == "out\n42\n"
    written, ended = told.err.splitlines()
    assert written == "err"
    assert ended.startswith(f"{path}: ok; ")
    assert all(word in ended for word in ("CPU ", "queue ", "peak memory "))


def test_what_has_no_line_end_is_passed_on_unchanged(save: Save, capsys: Capture) -> None:
    assert exit_code("run", save("print('a\\x1b[1m\\r', end='')")) == 0
    assert capsys.readouterr().out == "a\x1b[1m\r"


def test_json_is_one_line_a_file_with_every_field(save: Save, capsys: Capture) -> None:
    first, second = save("print(1)\n2", "1.py"), save("import sys; sys.exit(3)", "2.py")
    assert exit_code("run", first, second, "--json") == 1
    one, two = json_lines(capsys)
    assert one.keys() == two.keys() == FIELDS
    assert (one["file"], one["status"], one["stdout"], one["value"]) == (first, "ok", "1\n", "2")
    assert (two["file"], two["status"], two["exit_code"]) == (second, "exit", 3)
    assert one["wall_seconds"] > 0
    assert "rlimits" in one["layers"]


def test_each_file_is_fresh_unless_they_are_blocks_of_a_session(save: Save, capsys: Capture) -> None:
    files = save("x = 1", "1.py"), save("1 / 0", "2.py"), save("x + 1", "3.py")
    assert exit_code("run", *files, "--json") == 1
    assert [line["status"] for line in json_lines(capsys)] == ["ok", "exception", "exception"]
    assert exit_code("run", *files, "--json", "--session") == 1
    lines = json_lines(capsys)
    assert [line["status"] for line in lines] == ["ok", "exception", "ok"]
    assert lines[2]["value"] == "2"
    assert exit_code("run", files[0], files[2], "--session") == 0


def test_a_dash_is_standard_input(save: Save, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    stand_in_input(monkeypatch, b"\xef\xbb\xbfprint('\xc3\xa9')")
    assert exit_code("run", save("1"), "-", "--json") == 0
    assert [(line["file"], line["stdout"]) for line in json_lines(capsys)][1] == ("-", "\u00e9\n")


def test_a_program_does_not_read_our_standard_input(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    stand_in_input(monkeypatch, b"secret")
    assert exit_code("run", save("import sys; repr(sys.stdin.read())")) == 0
    assert capsys.readouterr().out == "\"''\"\n"


def test_a_declared_encoding_holds(save: Save, capsys: Capture) -> None:
    assert exit_code("run", save(b"# coding: latin-1\nprint(ascii('\xe9'))")) == 0
    assert capsys.readouterr().out == "'\\xe9'\n"


@pytest.mark.parametrize(
    ("flags", "code", "status", "said"),
    [
        (["--cpu-seconds", "0.1"], "while True: pass", "cpu_timeout", "0.1 s"),
        (["--wall-seconds", "0.2", "--cpu-seconds", "0.1"], "import time; time.sleep(60)", "wall_timeout", "0.2 s"),
        (["--memory-bytes", str(64 << 20)], "x = bytearray(128 << 20)", "memory", "MemoryError"),
        (["--output-bytes", "100"], "while True: print('x' * 80)", "output_limit", ""),
        (["--file-bytes", str(1 << 16)], "open('f', 'wb').write(bytes(1 << 20))", "exception", "Error"),
    ],
)
def test_limits_are_flags(save: Save, capsys: Capture, flags: list[str], code: str, status: str, said: str) -> None:
    assert exit_code("run", save(code), *flags) == 1
    ended = capsys.readouterr().err.splitlines()[-1]
    assert f": {status}" in ended
    assert said in ended


def test_modules_are_preloaded_by_name(save: Save, capsys: Capture) -> None:
    code = "import sys; sorted({'wave', 'colorsys', 'sched'} & set(sys.modules))"
    assert exit_code("run", save(code), "--preload", "wave,colorsys", "--preload", "sched") == 0
    assert capsys.readouterr().out == "['colorsys', 'sched', 'wave']\n"
    assert exit_code("run", save("import asyncio.windows_events"), "--preload", "asyncio.windows_events") == 6
    assert "win32 only" in capsys.readouterr().err


def test_trusted_runs_with_limits_only(save: Save, capsys: Capture) -> None:
    assert exit_code("run", save("1"), "--mode", "trusted", "--json") == 0
    layers = set(json_lines(capsys)[0]["layers"])
    assert {"no_new_privs", "rlimits"} <= layers <= {"no_new_privs", "rlimits", "cgroup"}


@pytest.mark.usefixtures("never_opened")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cpu-seconds", "0"], "--cpu-seconds 0.0: must be a number, greater than 0"),
        (["--wall-seconds", "nan"], "--wall-seconds nan: must be a finite number"),
        (["--memory-bytes", "0"], "--memory-bytes 0: must be a whole number, at least 16777216"),
        (["--file-bytes", "-1"], "--file-bytes -1: must be a whole number, at least 0"),
        (["--output-bytes", "64KiB"], "--output-bytes"),
        (["--mode", "odd"], "strict"),
        (["--preload", "os; x"], "--preload 'os; x' is not the name of a module"),
        (["--preload", ""], "--preload '' is not the name of a module"),
        (["--jason"], "--json"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(save: Save, capsys: Capture, flags: list[str], said: str) -> None:
    assert exit_code("run", save("1"), *flags) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("never_opened")
def test_no_file_is_a_usage_error(capsys: Capture) -> None:
    assert exit_code("run") == 2
    assert "FILE" in capsys.readouterr().err


@pytest.mark.usefixtures("never_opened")
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.py", None, "there is no file"),
        (".", None, "cannot be read: Is a directory"),
        ("\x1b[2J\n.py", None, "there is no file \\x1b[2J\\n.py"),
        ("nul\x00.py", None, "cannot be read"),
        ("bytes.py", b"x = '\xff'", "cannot be decoded (invalid or missing encoding declaration"),
        ("odd.py", b"# coding: klingon\n", "cannot be decoded (unknown encoding"),
        ("late.py", b"#\n#\n" + b"x = 1\n" * 9 + b"'\xff'", "is not utf-8 text (byte 59)"),
    ],
)
def test_a_file_that_cannot_be_taken_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, name: str, content: bytes | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_bytes(content)
    assert exit_code("run", name) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.usefixtures("never_opened")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_said(save: Save, capsys: Capture) -> None:
    path = save("1")
    Path(path).chmod(0)
    assert exit_code("run", path) == 2
    assert "Permission denied" in capsys.readouterr().err


@pytest.mark.usefixtures("never_opened")
def test_standard_input_cannot_be_read_twice(capsys: Capture) -> None:
    assert exit_code("run", "-", "-") == 2
    assert "only once" in capsys.readouterr().err


def test_a_limit_without_effect_is_warned_of(save: Save, capsys: Capture) -> None:
    assert exit_code("run", save("1"), "--cpu-seconds", "20") == 0
    assert "--cpu-seconds 20 has no effect: --wall-seconds 10" in capsys.readouterr().err


def test_a_program_is_not_trusted_with_the_terminal(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Screen(), Screen()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    code = "print('\\x1b[2J\\rx\\ty', end='')\nclass A:\n  __repr__ = lambda s: '\\x1b]0;a\\x07\\nb'\nA()"
    assert exit_code("run", save(code)) == 0
    assert out.getvalue() == "\\x1b[2J\\rx\ty\n\\x1b]0;a\\x07\nb\n"
    assert exit_code("run", save("raise ValueError('\\x9b2J')")) == 1
    assert "\\x9b2J" in err.getvalue()
    assert not {"\x1b", "\x9b", "\r"} & set(out.getvalue() + err.getvalue())


def test_shown_text_keeps_letters_of_all_languages() -> None:
    assert snippets.shown("a\u00e9\u5b57\t\n") == "a\u00e9\u5b57\\t\\n"
    assert snippets.shown("a\t\n\udcff\u202e", keep="\n\t") == "a\t\n\\udcff\\u202e"


def test_nobody_needs_to_read_what_is_printed(save: Save) -> None:
    program = save("print('x' * 50_000)")
    command = f"import sys; from agentmath.cli.main import main; main(['sandbox', 'run', '--json', {program!r}])"
    running = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.close()
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (0, b"")


def test_the_report_names_every_layer(capsys: Capture) -> None:
    assert exit_code("report", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trial"] == "ok"
    assert [layer["name"] for layer in found["layers"]] == list(LEAVES_OPEN)
    assert all(layer["in_force"] or layer["why_not"] for layer in found["layers"])
    assert exit_code("report") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(LEAVES_OPEN)


@pytest.fixture
def two_layers(monkeypatch: pytest.MonkeyPatch) -> Callable[[ToolStatus], None]:
    layers = (
        Layer(name="rlimits", in_force=True, why_not="", leaves_open="not said"),
        Layer(name="seccomp", in_force=False, why_not="[old] kernel", leaves_open="system calls"),
    )

    def end_with(trial: ToolStatus) -> None:
        monkeypatch.setattr(isolation, "examine_sandbox", lambda: (layers, trial))

    return end_with


def test_a_missing_layer_says_why_and_what_that_leaves_open(
    two_layers: Callable[[ToolStatus], None], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_layers(ToolStatus.OK)
    assert exit_code("report") == 0
    assert capsys.readouterr().out.splitlines() == [
        "rlimits  in force",
        "seccomp  missing: [old] kernel; leaves open: system calls",
    ]
    monkeypatch.setattr(sys, "stdout", screen := Screen())
    assert exit_code("report") == 0
    table = screen.getvalue()
    assert all(word in table for word in ("rlimits", "yes", "seccomp", "no", "[old] kernel", "system calls"))
    assert "not said" not in table


def test_a_sandbox_that_runs_nothing_is_an_error(two_layers: Callable[[ToolStatus], None], capsys: Capture) -> None:
    two_layers(ToolStatus.SANDBOX_ERROR)
    assert exit_code("report") == 6
    assert "a small program ended with status sandbox_error" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "schedule"), [([], latency.FULL), (["--quick"], latency.QUICK)])
def test_bench_prints_json_or_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, flags: list[str], schedule: latency.Schedule
) -> None:
    figures = dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "exec_per_second", "child_cpu_ms", "private_mib"), 1.5)
    measured = {
        "rows": {"parked_print": {**figures, "private_mib": None, "samples": 7}},
        "ratios": {"a_vs_b": 20.0},
        "left_out": {"bubblewrap_print": "bwrap is not installed"},
        "machine": {"processor": "P", "cores": 2, "system": "S", "load_average_before": 0.0, "load_average": 1.0},
    }
    asked: list[latency.Schedule] = []

    async def stand_in(schedule: latency.Schedule) -> dict[str, Any]:
        asked.append(schedule)
        return measured

    monkeypatch.setattr(latency, "measure", stand_in)
    assert exit_code("bench", "--json", *flags) == 0
    assert json.loads(capsys.readouterr().out) == measured
    assert exit_code("bench", *flags) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["parked_print", "1.5", "1.5", "1.5", "1.5", "1.5", "-", "7"]
    assert "a_vs_b: 20" in lines
    assert "left out: bubblewrap_print: bwrap is not installed" in lines
    assert asked == [schedule, schedule]


def test_without_a_command_the_help_is_shown(capsys: Capture) -> None:
    assert exit_code() == 2
    told = capsys.readouterr()
    assert all(word in told.out + told.err for word in ("run", "report", "bench"))
