"""Cancelling, closing, and processes that are killed from outside."""

from __future__ import annotations

import asyncio
import gc
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
from agentmath.core.errors import SandboxError
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox.local import LocalSandbox, open_sandbox

ProcessesOf = Callable[[int], list[int]]


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_cancelling_the_task_kills_the_process(sandbox: LocalSandbox) -> None:
    (zygote,) = children_of(sandbox._fleet.links[0].pid)

    def is_any_running() -> bool:
        stats = [Path(f"/proc/{pid}/stat") for pid in children_of(zygote)]
        return any(stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "R" for stat in stats)

    async def run() -> None:
        task = asyncio.create_task(sandbox.execute("while True: pass", limits=Limits(cpu_seconds=60, wall_seconds=60)))
        while not is_any_running():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    wait_until(lambda: not is_any_running())
    assert not sandbox._jobs


def test_a_timeout_of_the_caller_is_a_cancellation(sandbox: LocalSandbox) -> None:
    async def run() -> ToolResult:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sandbox.execute("while True: pass"), 0.1)
        return await sandbox.execute("2")

    assert asyncio.run(run()).value == "2"


def test_one_sandbox_serves_many_event_loops(sandbox: LocalSandbox) -> None:
    assert [asyncio.run(sandbox.execute(str(i))).value for i in range(3)] == ["0", "1", "2"]


def test_a_loop_that_ends_with_calls_under_way_leaves_none_behind(sandbox: LocalSandbox) -> None:
    async def leave() -> None:
        tasks = [asyncio.create_task(sandbox.execute("import time\ntime.sleep(60)")) for _ in range(20)]
        await asyncio.sleep(0.1)
        del tasks

    asyncio.run(leave())
    gc.collect()
    assert asyncio.run(sandbox.execute("3")).value == "3"
    assert not sandbox._jobs


def test_a_killed_process_is_replaced_and_its_calls_are_repeated(sandbox: LocalSandbox) -> None:
    async def run() -> list[ToolResult]:
        tasks = [asyncio.create_task(sandbox.execute(f"import time\ntime.sleep(0.2)\n{i}")) for i in range(6)]
        await asyncio.sleep(0.1)
        os.kill(sandbox._fleet.links[0].pid, signal.SIGKILL)
        return await asyncio.gather(*tasks)

    assert [result.value for result in asyncio.run(run())] == [str(i) for i in range(6)]


def test_a_killed_zygote_takes_its_children_along_and_is_replaced(
    sandbox: LocalSandbox, processes_of_session: ProcessesOf
) -> None:
    supervisor = sandbox._fleet.links[0].pid
    (zygote,) = children_of(supervisor)

    async def run() -> ToolResult:
        task = asyncio.create_task(sandbox.execute("import time\ntime.sleep(0.3)\n7"))
        await asyncio.sleep(0.1)
        os.kill(zygote, signal.SIGKILL)
        return await task

    assert asyncio.run(run()).value == "7"
    wait_until(lambda: not processes_of_session(supervisor))


def test_a_call_whose_process_dies_twice_is_a_sandbox_error(sandbox: LocalSandbox) -> None:
    async def run() -> ToolResult:
        task = asyncio.create_task(sandbox.execute("import time\ntime.sleep(1)"))
        for _ in range(2):
            await asyncio.sleep(0.3)
            while sandbox._fleet.links[0].hello is None:
                await asyncio.sleep(0.01)
            os.kill(sandbox._fleet.links[0].pid, signal.SIGKILL)
        return await task

    result = asyncio.run(run())
    assert (result.status, result.is_infrastructure_failure) == (ToolStatus.SANDBOX_ERROR, True)
    assert asyncio.run(sandbox.execute("8")).value == "8"


def test_a_trainer_that_is_killed_leaves_no_process(tmp_path: Path, processes_of_session: ProcessesOf) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio, os
            from agentmath.config.sandbox import SandboxSection
            from agentmath.sandbox.local import open_sandbox

            async def main():
                sandbox = await open_sandbox(SandboxSection(num_workers=2))
                session = await sandbox.open_session()
                await sandbox.execute("x = 1", session=session)
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "60"])
                forked = os.fork()  # holds a copy of the socket, as a data loader's workers would
                if forked == 0:
                    import time
                    time.sleep(60)
                print(sandbox._fleet.links[0].pid, forked, flush=True)
                await asyncio.gather(*[sandbox.execute("import time; time.sleep(60)") for _ in range(5)])

            asyncio.run(main())
        """)
    )
    trainer = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert trainer.stdout is not None
    try:
        supervisor, forked = (int(word) for word in trainer.stdout.readline().split())
        wait_until(lambda: len(processes_of_session(supervisor)) >= 4)
        trainer.kill()
        trainer.wait()
        wait_until(lambda: not processes_of_session(supervisor))
        assert forked in processes_of_session(trainer.pid)
    finally:
        os.killpg(trainer.pid, signal.SIGKILL)
        trainer.stdout.close()


def test_closing_ends_everything_and_is_final(processes_of_session: ProcessesOf) -> None:
    async def run() -> tuple[int, ToolResult]:
        sandbox = await open_sandbox(SandboxSection(num_workers=2))
        pid = sandbox._fleet.links[0].pid
        task = asyncio.create_task(sandbox.execute("while True: pass"))
        await asyncio.sleep(0.05)
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.execute("1")
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.open_session()
        return pid, await task

    num_descriptors = len(os.listdir("/proc/self/fd"))
    pid, result = asyncio.run(run())
    assert result.status is ToolStatus.CANCELLED
    assert processes_of_session(pid) == []
    assert len(os.listdir("/proc/self/fd")) == num_descriptors
