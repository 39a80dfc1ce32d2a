"""Facts beside the status: totals, codes, signals, memory, and an empty folder for the next."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
from collections.abc import Callable

import pytest

from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox.local import LocalSandbox

MIB = 1 << 20
Execute = Callable[..., ToolResult]


@pytest.fixture
def execute(sandbox: LocalSandbox) -> Execute:
    def call(code: str, **limits: float) -> ToolResult:
        ample = {"cpu_seconds": 30.0, "wall_seconds": 60.0}
        return asyncio.run(sandbox.execute(code, limits=Limits(**(ample | limits))))  # type: ignore[arg-type]

    return call


def test_floods_on_both_streams_are_capped_and_counted_to_the_byte(execute: Execute) -> None:
    code = "import sys\nfor _ in range(20):\n    sys.stdout.write('o' * 20000)\n    sys.stderr.write('e' * 20000)"
    result = execute(code)
    assert (result.status, result.stdout_bytes, result.stderr_bytes) == (ToolStatus.OK, 400_000, 400_000)
    assert "cut" in result.stdout
    assert len(result.stdout) < 70_000


def test_head_and_tail_of_a_flood_are_kept(execute: Execute) -> None:
    result = execute("print('first')\nprint('x' * 30_000)\nprint('last')", output_bytes=8000)
    assert result.stdout.startswith("first\n")
    assert result.stdout.endswith("last\n")
    assert result.stdout_bytes == len("first\nlast\n") + 30_001


def test_all_bytes_arrive_as_text_that_json_can_carry(execute: Execute) -> None:
    result = execute("import sys\nsys.stdout.buffer.write(bytes(range(256)))\nprint('\\ud800 \\x00 \\x1b[31m \\u202e')")
    assert result.stdout_bytes == 256 + len("\\ud800 \x00 \x1b[31m \u202e\n".encode())
    assert json.loads(json.dumps(dataclasses.asdict(result)))["stdout"] == result.stdout


def test_text_cut_inside_a_character_stays_text(execute: Execute) -> None:
    result = execute("print('\\U0001f600' * 5000)", output_bytes=4001)
    assert result.status is ToolStatus.OK
    result.stdout.encode("utf-8")


@pytest.mark.parametrize("code", [1, 2, 125, 137, 255])
def test_an_exit_code_is_the_kernels(execute: Execute, code: int) -> None:
    for leave in (f"import sys\nsys.exit({code})", f"import os\nos._exit({code})"):
        result = execute(leave)
        assert (result.status, result.exit_code, result.signal) == (ToolStatus.EXIT, code, None)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("import os\nos.abort()", signal.SIGABRT),
        ("import ctypes\nctypes.string_at(0)", signal.SIGSEGV),
        ("import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(9)", signal.SIGALRM),
    ],
)
def test_a_signal_is_the_kernels(execute: Execute, code: str, number: int) -> None:
    result = execute(code)
    assert (result.status, result.signal, result.exit_code) == (ToolStatus.SIGNAL, number, None)
    assert signal.Signals(number).name in str(result.error)


@pytest.mark.parametrize(
    ("code", "limits", "status"),
    [
        ("while True: pass", {"cpu_seconds": 0.1}, ToolStatus.CPU_TIMEOUT),
        ("import time\ntime.sleep(60)", {"wall_seconds": 0.1}, ToolStatus.WALL_TIMEOUT),
        ("while True: print('x' * 9999)", {"output_bytes": 1000}, ToolStatus.OUTPUT_LIMIT),
    ],
)
def test_a_kill_says_which_limit_and_how_large_it_is(
    execute: Execute, code: str, limits: dict[str, float], status: ToolStatus
) -> None:
    result = execute(code, **limits)
    assert (result.status, result.signal) == (status, signal.SIGKILL)
    assert any(character.isdigit() for character in str(result.error))


def test_the_cpu_limit_counts_cpu_time_and_not_the_clock(execute: Execute) -> None:
    result = execute("import time\ntime.sleep(0.5)\n5", cpu_seconds=0.2)
    assert (result.status, result.value) == (ToolStatus.OK, "5")
    assert result.cpu_seconds < 0.2
    assert result.wall_seconds >= 0.5


def test_peak_memory_is_that_of_the_snippet(execute: Execute) -> None:
    small, large = execute("1"), execute("x = bytearray(100 << 20)")
    assert large.peak_memory_bytes - small.peak_memory_bytes > 90 * MIB


def test_a_code_that_hides_its_memory_error_still_shows_in_the_facts(execute: Execute) -> None:
    code = "try: bytearray(10 << 30)\nexcept MemoryError: print('caught')"
    result = execute(code, memory_bytes=64 * MIB)
    assert (result.status, result.stdout) == (ToolStatus.OK, "caught\n")


def test_folders_are_empty_for_whoever_comes_next(execute: Execute) -> None:
    code = (
        "import os\nopen('n' * 255, 'w').close()\nopen(b'\\xff\\n', 'w').close()\nos.symlink('/', 'out')\n"
        "for _ in range(900):\n    os.mkdir('d')\n    os.chdir('d')"
    )
    assert execute(code).status is ToolStatus.OK
    assert "too large" in str(execute("f = open('big', 'wb')\nwhile True: f.write(b'x' * (1 << 20))").error)
    assert [execute("import os\nos.listdir('.')").value for _ in range(6)] == ["[]"] * 6


def test_no_core_file_is_written(execute: Execute) -> None:
    code = "import resource\nresource.getrlimit(resource.RLIMIT_CORE)"
    assert execute(code).value == "(0, 0)"


def test_a_snippet_that_was_killed_leaves_its_place_to_the_next_at_once(sandbox: LocalSandbox) -> None:
    """Twenty that wait for ever, on four workers, take turns and are all told so."""

    async def run() -> list[ToolResult]:
        limits = Limits(cpu_seconds=10.0, wall_seconds=0.1)
        calls = [sandbox.execute("import time\ntime.sleep(60)", limits=limits) for _ in range(20)]
        return await asyncio.gather(*calls)

    assert {result.status for result in asyncio.run(run())} == {ToolStatus.WALL_TIMEOUT}


def test_a_forged_value_is_all_that_a_forged_report_can_bring(execute: Execute) -> None:
    frame = (
        "import os, struct\nbody = struct.pack('<BBIiI', 0, 1, 1, 0, 6) + b'forged' + struct.pack('<I', 0)\n"
        "os.write(3, struct.pack('<I', len(body)) + body)\n"
    )
    facts = {leave: execute(frame + leave) for leave in ("os._exit(3)", "os.abort()", "os._exit(0)")}
    assert [(r.status, r.exit_code, r.signal) for r in facts.values()] == [
        (ToolStatus.EXIT, 3, None),
        (ToolStatus.SIGNAL, None, signal.SIGABRT),
        (ToolStatus.OK, 0, None),
    ]
    assert facts["os._exit(3)"].value is None
    assert facts["os.abort()"].value is None
