"""The benchmark's arithmetic worked by hand, its form, and a tiny run of it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.types import ToolResult, ToolStatus
from agentmath.sandbox import baselines, contenders, footprint, latency
from agentmath.sandbox.baselines import CannotMeasureError, Timing
from agentmath.sandbox.contenders import Contender, Contest
from agentmath.sandbox.figures import Tally, lines, percentile, row, summarise
from agentmath.sandbox.latency import Schedule, measure, turns

BENCH = Path(__file__).resolve().parents[3] / "bench"
ROW_KEYS = {"p50_ms", "p90_ms", "p99_ms", "exec_per_second", "child_cpu_ms", "private_mib", "samples"}
TINY = Schedule(parts=2, rounds_per_part=2, slow_every=2, lane_seconds=0.01, burst=6, settle_seconds=0.001)


def tally(*milliseconds: float, cpu: float | None = 0.001) -> Tally:
    return Tally(alone=[Timing(value / 1e3, cpu) for value in milliseconds])


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([3.0, 1.0, 2.0], 50, 2.0),
        ([4.0, 3.0, 1.0, 2.0], 50, 2.0),
        ([4.0, 3.0, 1.0, 2.0], 75, 3.0),
        ([4.0, 3.0, 1.0, 2.0], 76, 4.0),
        ([7.0], 50, 7.0),
        ([7.0], 99, 7.0),
        ([float(i) for i in range(1, 101)], 99, 99.0),
        ([float(i) for i in range(1, 101)], 90, 90.0),
        ([float(i) for i in range(1, 201)], 99, 198.0),
    ],
)
def test_percentiles_by_hand(values: list[float], share: int, expected: float) -> None:
    assert percentile(values, share) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_was_seen_and_covers_its_share(values: list[float], share: int) -> None:
    found = percentile(values, share)
    assert found in values
    assert 100 * sum(value <= found for value in values) >= share * len(values)
    assert 100 * sum(value < found for value in values) < share * len(values)


def test_a_row_by_hand() -> None:
    measured = tally(1.0, 3.0, 2.0, cpu=0.0025)
    measured.beside, measured.lane_seconds, measured.private_mib = [0.1] * 30, 2.0, 1.25
    assert row(measured) == {
        **{"p50_ms": 2.0, "p90_ms": 3.0, "p99_ms": 3.0, "exec_per_second": 15.0},
        **{"child_cpu_ms": 2.5, "private_mib": 1.25, "samples": 3},
    }


def test_what_does_not_apply_is_none_and_not_zero() -> None:
    assert row(tally(1.0, cpu=None)) == dict.fromkeys(ROW_KEYS) | {
        **{"p50_ms": 1.0, "p90_ms": 1.0, "p99_ms": 1.0, "samples": 1}
    }
    assert row(Tally()) == dict.fromkeys(ROW_KEYS) | {"samples": 0}


def test_ratios_by_hand() -> None:
    tallies = {
        "subprocess_print": tally(10.0),
        "parked_print": tally(0.5, 0.4, 0.6),
        "fork_print": tally(4.0),
        "empty_fork": tally(0.1),
        "session_block": tally(0.05),
        "burst_100": Tally(alone=[Timing(i / 100, 0.001) for i in range(1, 101)]),
    }
    tallies["parked_print"].beside, tallies["parked_print"].lane_seconds = [0.01, 0.02, 0.09], 1.0
    found = summarise(tallies, bursts=[1.5, 1.0, 1.2], num_lanes=2)
    # 100 calls of 20 ms by 2 workers take 1 s; the median burst took 1.2 s, and its 99th answer came after 0.99 s
    assert found["ratios"] == {
        **{"session_block_vs_subprocess_print": 200.0, "parked_print_vs_subprocess_print": 20.0},
        **{
            "fork_print_vs_subprocess_print": 2.5,
            "parked_print_vs_fork_print": 8.0,
            "parked_print_in_empty_forks": 5.0,
        },
        **{"burst_100_total_vs_queue": 1.2, "burst_100_p99_vs_queue": 1.0},
    }
    assert found["rows"]["burst_100"]["exec_per_second"] == pytest.approx(100 / 1.2, rel=1e-4)
    assert found["rows"].keys() == tallies.keys()


def test_ratios_need_both_sides() -> None:
    assert summarise({"parked_sympy": tally(1.0), "subprocess_sympy": Tally()}, bursts=[], num_lanes=1)["ratios"] == {}
    assert summarise({}, bursts=[], num_lanes=1) == {"rows": {}, "ratios": {}}
    assert summarise({"burst_6": tally(1.0)}, bursts=[0.1], num_lanes=1)["ratios"] == {}


@dataclass
class Calls:
    """Stands in for a sandbox: every call prints what the benchmark expects."""

    status: ToolStatus = ToolStatus.OK
    num_calls: int = 0

    async def execute(self, code: str, **_: Any) -> ToolResult:
        self.num_calls += 1
        return ToolResult(status=self.status, stdout="1\n", error="so it is", cpu_seconds=0.002)

    async def open_session(self, *, seed: int | None = None) -> str:
        return "s"

    async def close_session(self, session: str) -> None:
        assert session == "s"

    def report(self) -> tuple[()]:
        return ()


def contender(name: str, call: Callable[[], Awaitable[Timing]], *, has_lane: bool = False) -> Contender:
    async def lane(_: int) -> Timing:
        await asyncio.sleep(0.001)
        return await call()

    return Contender(name=name, meaning=f"what {name} is", once=call, lane=lane if has_lane else None)


def stand_in_contest(monkeypatch: pytest.MonkeyPatch, sandbox: Calls, *rows: Contender) -> None:
    @asynccontextmanager
    async def opened(num_lanes: int) -> AsyncIterator[Contest]:
        yield Contest(num_lanes=num_lanes, bare=sandbox, contenders=list(rows))  # type: ignore[arg-type]

    monkeypatch.setattr(latency, "open_contest", opened)


async def _two_milliseconds() -> Timing:
    return Timing(0.002, 0.001)


def test_a_row_that_fails_midway_is_left_out_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter([Timing(0.001, 0.001)] * 3)

    async def fail_later() -> Timing:
        for timing in calls:
            return timing
        raise CannotMeasureError("it broke")

    rows = contender("parked_print", _two_milliseconds, has_lane=True), contender("weak", fail_later)
    stand_in_contest(monkeypatch, Calls(), *rows)
    found = asyncio.run(measure(TINY))
    assert found["left_out"] == {"weak": "it broke"}
    assert found["rows"].keys() == found["meanings"].keys() == {"parked_print", "burst_6"}
    assert found["rows"]["parked_print"]["samples"] == 4
    assert found["rows"]["parked_print"]["exec_per_second"] > 0
    assert found["rows"]["burst_6"]["samples"] == 12
    assert found["rows"]["burst_6"]["child_cpu_ms"] == 2.0


def test_a_row_that_fails_beside_others_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: int) -> Timing:
        raise CannotMeasureError("too much at once")

    stand_in_contest(monkeypatch, Calls(), Contender(name="a", meaning="", once=_two_milliseconds, lane=fail))
    assert asyncio.run(measure(TINY))["left_out"] == {"a": "too much at once"}


def test_a_burst_that_is_not_answered_rightly_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Calls(status=ToolStatus.QUEUE_TIMEOUT)
    stand_in_contest(monkeypatch, sandbox)
    found = asyncio.run(measure(TINY))
    assert found["rows"] == {}
    assert "ended with status queue_timeout instead of ok: so it is" in found["left_out"]["burst_6"]
    assert sandbox.num_calls == 3 + 6  # one burst, and one block for each of the sessions that are weighed


def test_rows_take_turns_to_be_first_and_slow_ones_come_seldom() -> None:
    a, b, slow = (
        Contender(name=name, meaning="", once=_two_milliseconds, is_slow=name == "slow") for name in ("a", "b", "slow")
    )
    order = [[c.name for c in turns([a, b, slow], number, slow_every=3)] for number in range(4)]
    assert order == [["a", "b", "slow"], ["b", "a"], ["a", "b"], ["a", "b", "slow"]]
    assert turns([], 5, slow_every=3) == []


def test_memory_of_what_ended_by_hand() -> None:
    before = {1: 2.0, 2: 0.5, 3: 0.25, 4: None}
    assert footprint.total_of_ended(before, {1, 4}) == 0.75
    assert footprint.total_of_ended(before, {1, 2, 3, 4}) is None
    assert footprint.total_of_ended(before, {1, 2, 3}) is None
    assert footprint.median_known([None, 3.0, 1.0, 2.0]) == 2.0
    assert footprint.median_known([None]) is None


def test_a_child_is_a_descendant_as_long_as_it_lives() -> None:
    with baselines.EmptyForks() as forks:
        pid = forks._process.pid
        assert pid in footprint.descendants(os.getpid())
        size = footprint.private_dirty_mib(pid)
        assert size is None or 0 < size < 100
        assert forks.once().seconds > 0
    assert pid not in footprint.descendants(os.getpid())
    assert footprint.private_dirty_mib(pid) is None
    with pytest.raises(CannotMeasureError, match="is gone"):
        forks.once()


def test_a_clean_interpreter_has_packages_only_where_it_is_told(tmp_path: Path) -> None:
    python = baselines.clean_python(tmp_path / "clean")
    code = "import importlib.util; print(importlib.util.find_spec('hypothesis') is None)"
    alone = baselines.run_process(baselines.python_command(python, code), "True\n")
    assert alone.seconds > 0
    assert alone.cpu_seconds is not None
    assert alone.cpu_seconds > 0
    (tmp_path / "found").mkdir()
    (tmp_path / "found/hypothesis.py").touch()
    (tmp_path / "found/loud.pth").write_text("import sys; sys.exit('ran at start')\n")
    searching = baselines.python_command(python, code, search=[str(tmp_path / "found")])
    baselines.run_process(searching, "False\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/no/such/program"], "does not run"),
        ([sys.executable, "-c", "raise SystemExit('because')"], "exit code 1 and said: because"),
        ([sys.executable, "-c", "print(2)"], "exit code 0 and said: 2"),
        ([sys.executable, "-c", ""], "exit code 0 and said: nothing"),
    ],
)
def test_a_process_that_does_something_else_is_not_measured(command: list[str], said: str) -> None:
    with pytest.raises(CannotMeasureError, match=said):
        baselines.run_process(command, "1\n")


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for bwrap: goes on with the command behind the options."""
    path = tmp_path / "bin" / "bwrap"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\nwhile [ "$1" != -I ]; do last=$1; shift; done\nexec "$last" "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    return path


def test_a_tiny_run_leaves_nothing_behind(wrapper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sympy" else find(name))
    before = footprint.descendants(os.getpid()), len(os.listdir("/proc/self/fd"))
    found = json.loads(json.dumps(asyncio.run(measure(TINY))))
    assert (footprint.descendants(os.getpid()), len(os.listdir("/proc/self/fd"))) == before
    assert list(temporary.iterdir()) == []
    assert found["left_out"] == dict.fromkeys(("subprocess_sympy", "parked_sympy"), "not installed: ['sympy']")
    rows = found["rows"]
    assert rows.keys() == {
        *("subprocess_print", "bubblewrap_print", "parked_print", "fork_print", "kill_to_report"),
        *("session_block", "empty_fork", "burst_6"),
    }
    assert all(figures.keys() == ROW_KEYS for figures in rows.values())
    assert all(figures["p50_ms"] <= figures["p90_ms"] <= figures["p99_ms"] for figures in rows.values())
    assert {name: figures["samples"] for name, figures in rows.items()} == dict.fromkeys(rows, 4) | {"burst_6": 12}
    has_rate = {name for name, figures in rows.items() if figures["exec_per_second"]}
    assert has_rate == rows.keys() - {"kill_to_report", "empty_fork"}
    assert rows["kill_to_report"]["child_cpu_ms"] >= 1e3 * contenders.KILL_AFTER_SECONDS
    assert rows["bubblewrap_print"]["child_cpu_ms"] is None
    assert "parked_print_vs_subprocess_print" in found["ratios"]
    assert "burst_6_p99_vs_queue" in found["ratios"]
    assert "rlimits" in found["machine"]["layers"]
    assert all(any(name in line for line in lines(found)) for name in (*rows, *found["ratios"], *found["left_out"]))


def test_the_bench_prints_one_record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in_contest(monkeypatch, Calls(), contender("parked_print", _two_milliseconds, has_lane=True))
    monkeypatch.setattr(latency, "QUICK", TINY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["sandbox_latency.py", "--json", "--quick"])
    spec = importlib.util.spec_from_file_location("sandbox_latency", BENCH / "sandbox_latency.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main()
    printed = json.loads(capsys.readouterr().out)
    assert (printed["bench"], printed["arguments"]) == ("sandbox_latency", {"json": True, "quick": True})
    assert printed["rows"]["parked_print"].keys() == ROW_KEYS
    assert {"rows", "ratios", "machine", "left_out", "meanings", "schedule", "commit"} <= printed.keys()
