"""The control group of a zygote and its children: what is in force, what it ends, and that none is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox.local import LocalSandbox, open_sandbox

MIB = 1 << 20
GROWING = "x = []\nwhile True: x.append(bytearray(1 << 20))"
SMALL = Limits(cpu_seconds=30.0, wall_seconds=60.0, memory_bytes=16 * MIB, file_bytes=0)
"""With one worker, what two such children may have is the size of the group."""

NeedsLayer = Callable[[str], None]
ProcessesOf = Callable[[int], list[int]]


@pytest.fixture(autouse=True)
def needs_cgroup(needs_layer: NeedsLayer) -> None:
    needs_layer("cgroup")


def groups_of(trainer: int) -> list[Path]:
    """Folders of all groups that bear this trainer's number, outer and inner."""
    found = [Path(path) for path, _, _ in os.walk("/sys/fs/cgroup") if f"agentmath-sandbox-{trainer}-" in path]
    return sorted(found)


def groups_of_process(pid: int) -> set[str]:
    return {
        line.rsplit("/", 1)[-1] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if "agentmath" in line
    }


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


async def open_unlimited() -> LocalSandbox:
    """Only the group limits memory here, and it is small."""
    section = SandboxSection(num_workers=1, memory_bytes=SMALL.memory_bytes, file_bytes=0)
    return await open_sandbox(section, without=["rlimits"])


def test_zygote_and_children_are_in_its_group_and_results_say_so(
    sandbox: LocalSandbox, zygotes_of: ProcessesOf, processes_of_session: ProcessesOf
) -> None:
    assert "cgroup" in sandbox.execute_blocking("1").layers
    (zygote,) = zygotes_of(os.getpid())
    members = processes_of_session(zygote)
    assert len(members) >= 2
    assert {name for pid in members for name in groups_of_process(pid)} == {str(zygote)}


def test_more_memory_than_the_group_may_hold_is_told_as_memory_and_hits_no_zygote(zygotes_of: ProcessesOf) -> None:
    async def run() -> tuple[list[ToolResult], ToolResult, bool]:
        others = zygotes_of(os.getpid())
        sandbox = await open_unlimited()
        try:
            before = zygotes_of(os.getpid())
            grown = [await sandbox.execute(GROWING, limits=SMALL) for _ in range(2)]
            shot = await sandbox.execute("import os\nos.kill(os.getpid(), 9)", limits=SMALL)
            return grown, shot, zygotes_of(os.getpid()) == before != others
        finally:
            await sandbox.close()

    grown, shot, same_zygote = asyncio.run(run())
    for result in grown:
        assert (result.status, result.signal) == (ToolStatus.MEMORY, signal.SIGKILL)
        assert "kernel" in str(result.error)
        assert result.peak_memory_bytes < 512 * MIB
        assert "rlimits" not in result.layers
    assert same_zygote
    assert shot.status is ToolStatus.SIGNAL, "an earlier end is told once"


def test_a_session_that_grows_between_its_blocks_is_lost_for_want_of_memory() -> None:
    code = (
        "import threading, time\n"
        "def grow():\n    time.sleep(0.2)\n    x = []\n    while True: x.append(bytearray(1 << 20))\n"
        "threading.Thread(target=grow, daemon=True).start()"
    )

    async def run() -> ToolResult:
        sandbox = await open_unlimited()
        try:
            session = await sandbox.open_session()
            assert (await sandbox.execute(code, limits=SMALL, session=session)).status is ToolStatus.OK
            deadline = time.monotonic() + 20
            while (result := await sandbox.execute("1", limits=SMALL, session=session)).status is ToolStatus.OK:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
            return result
        finally:
            await sandbox.close()

    result = asyncio.run(run())
    assert result.status in (ToolStatus.SESSION_LOST, ToolStatus.MEMORY)
    assert "memory" in str(result.error)


def test_threads_do_not_use_up_the_machines_process_numbers(sandbox: LocalSandbox) -> None:
    code = textwrap.dedent("""
        import _thread, threading

        threading.stack_size(32768)
        lock, is_waiting = _thread.allocate_lock(), _thread.allocate_lock()
        lock.acquire(), is_waiting.acquire()

        def wait():
            is_waiting.release()
            lock.acquire()

        n = 0
        try:
            while n < 20000:
                _thread.start_new_thread(wait, ())
                is_waiting.acquire()  # thousands that want the interpreter at once would use up the processor time
                n += 1
        except RuntimeError:
            pass
        n
    """)
    limits = Limits(cpu_seconds=60.0, wall_seconds=120.0, memory_bytes=2 << 30)
    result = sandbox.execute_blocking(code, limits=limits)
    assert result.status is ToolStatus.OK, result
    assert int(str(result.value)) <= (1 << 14) + 1024
    assert sandbox.execute_blocking("5").value == "5"


def test_groups_are_gone_after_closing_and_after_a_killed_zygote(
    zygotes_of: ProcessesOf, end_zygote: Callable[[int], None]
) -> None:
    before = groups_of(os.getpid())

    async def run() -> None:
        others = zygotes_of(os.getpid())
        sandbox = await open_sandbox(SandboxSection(num_workers=2))
        (first,) = set(zygotes_of(os.getpid())) - set(others)
        end_zygote(first)
        assert (await sandbox.execute("6")).value == "6"
        (second,) = set(zygotes_of(os.getpid())) - set(others)
        during = {path.name for path in groups_of(os.getpid())}
        assert str(first) not in during
        assert str(second) in during
        await sandbox.close()

    asyncio.run(run())
    assert groups_of(os.getpid()) == before


def test_what_a_killed_trainer_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio, time
            from agentmath.config.sandbox import SandboxSection
            from agentmath.sandbox.local import open_sandbox

            sandbox = asyncio.run(open_sandbox(SandboxSection(num_workers=1)))
            print("ready", flush=True)
            time.sleep(60)
        """)
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "ready\n"
        left = groups_of(trainer.pid)
        assert left
        trainer.kill()

    def are_empty() -> bool:
        return all((path / "cgroup.procs").read_text() == "" for path in left if path.exists())

    wait_until(are_empty)

    async def run() -> None:
        await (await open_sandbox(SandboxSection(num_workers=1))).close()

    asyncio.run(run())
    assert groups_of(trainer.pid) == []


def test_snippets_are_the_kernels_first_victims_and_zygotes_are_as_the_trainer(
    sandbox: LocalSandbox, zygotes_of: ProcessesOf
) -> None:
    sandbox.execute_blocking("1")
    (zygote,) = zygotes_of(os.getpid())

    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    def parked() -> list[int]:
        children = [int(word) for word in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()]
        return [pid for pid in children if score(pid) == 1000]

    wait_until(lambda: len(parked()) >= 1)
    wait_until(lambda: score(zygote) == score(os.getpid()))  # it wears its next child's score while it forks
