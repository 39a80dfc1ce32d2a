from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox.local import LocalSandbox, open_sandbox

Blocks = Callable[..., list[ToolResult]]


@pytest.fixture
def blocks(sandbox: LocalSandbox) -> Blocks:
    """Run blocks one after another in a new session that is closed at the end."""

    def call(*codes: str, **limits: float) -> list[ToolResult]:
        async def run() -> list[ToolResult]:
            session = await sandbox.open_session()
            bounds = Limits(**limits) if limits else None  # type: ignore[arg-type]
            results = [await sandbox.execute(code, session=session, limits=bounds) for code in codes]
            await sandbox.close_session(session)
            return results

        return asyncio.run(run())

    return call


def with_session(sandbox: LocalSandbox, body: Callable[[str], Awaitable[None]]) -> None:
    async def run() -> None:
        session = await sandbox.open_session()
        await body(session)
        await sandbox.close_session(session)

    asyncio.run(run())


def test_variables_live_from_block_to_block(blocks: Blocks) -> None:
    results = blocks("x = 20", "def f(n): return n * 2", "f(x) + 2")
    assert [result.value for result in results] == [None, None, "42"]
    assert {result.status for result in results} == {ToolStatus.OK}


def test_variables_do_not_reach_another_session(sandbox: LocalSandbox, blocks: Blocks) -> None:
    blocks("secret = 1")
    assert blocks("secret")[0].error == "NameError: name 'secret' is not defined"


def test_an_exception_keeps_the_state(blocks: Blocks) -> None:
    results = blocks("x = 1", "x = 2; 1 / 0", "x")
    assert results[1].status is ToolStatus.EXCEPTION
    assert results[1].error == "ZeroDivisionError: division by zero"
    assert results[2].value == "2"


def test_an_exit_request_ends_the_block_and_not_the_session(blocks: Blocks) -> None:
    results = blocks("x = 5", "import sys\nsys.exit(3)", "x")
    assert (results[1].status, results[1].exit_code) == (ToolStatus.EXIT, 3)
    assert results[2].value == "5"


def test_output_belongs_to_its_block(blocks: Blocks) -> None:
    results = blocks("print('a', end='')", "print('b')", "import sys; print('c', file=sys.stderr)")
    assert [(r.stdout, r.stderr) for r in results] == [("a", ""), ("b\n", ""), ("", "c\n")]


def test_functions_of_earlier_blocks_have_source_lines_in_tracebacks(blocks: Blocks) -> None:
    result = blocks("def f():\n    return 1 / 0  # here", "f()")[1]
    assert "return 1 / 0  # here" in result.stderr


def test_cpu_time_is_counted_per_block(blocks: Blocks) -> None:
    spin = "import time\nend = time.process_time() + 0.15\nwhile time.process_time() < end: pass"
    results = blocks(spin, "1", spin, spin, cpu_seconds=0.4, wall_seconds=20.0)
    assert {result.status for result in results} == {ToolStatus.OK}
    assert [result.cpu_seconds >= 0.1 for result in results] == [True, False, True, True]


def test_the_kernels_cpu_limit_is_never_below_what_a_block_may_use(blocks: Blocks) -> None:
    read = "import resource, time\ntime.sleep(0.2)\nresource.getrlimit(resource.RLIMIT_CPU)[0]"
    results = blocks(read, read, cpu_seconds=50.0, wall_seconds=20.0)
    assert [int(str(result.value)) >= 51 for result in results] == [True, True]


def test_a_block_that_is_killed_ends_the_session(blocks: Blocks) -> None:
    results = blocks("x = 1", "while True: pass", "x", cpu_seconds=0.2, wall_seconds=20.0)
    assert [result.status for result in results] == [ToolStatus.OK, ToolStatus.CPU_TIMEOUT, ToolStatus.SESSION_LOST]
    assert "cpu_timeout" in str(results[2].error)


def test_a_process_that_leaves_ends_the_session(blocks: Blocks) -> None:
    results = blocks("import os\nos._exit(5)", "1")
    assert (results[0].status, results[0].exit_code) == (ToolStatus.EXIT, 5)
    assert results[1].status is ToolStatus.SESSION_LOST


def test_a_process_that_leaves_between_blocks_ends_the_session(sandbox: LocalSandbox) -> None:
    async def body(session: str) -> None:
        code = "import os, threading\nthreading.Timer(0.1, os._exit, [0]).start()"
        assert (await sandbox.execute(code, session=session)).status is ToolStatus.OK
        await asyncio.sleep(0.5)
        assert (await sandbox.execute("1", session=session)).status is ToolStatus.SESSION_LOST

    with_session(sandbox, body)


def test_computing_between_blocks_is_not_free() -> None:
    async def run() -> ToolResult:
        sandbox = await open_sandbox(SandboxSection(num_workers=1, cpu_seconds=0.2))
        try:
            session = await sandbox.open_session()
            code = (
                "import threading\ndef spin():\n    while True: pass\n"
                "threading.Thread(target=spin, daemon=True).start()"
            )
            assert (await sandbox.execute(code, session=session)).status is ToolStatus.OK
            await asyncio.sleep(2.5)
            return await sandbox.execute("1", session=session)
        finally:
            await sandbox.close()

    late = asyncio.run(run())
    assert late.status is ToolStatus.SESSION_LOST
    assert "between its blocks" in str(late.error)


def test_writing_between_blocks_neither_blocks_nor_grows(sandbox: LocalSandbox) -> None:
    async def body(session: str) -> None:
        code = (
            "import threading, time\ndef chatter():\n    while True:\n"
            "        print('x' * 1000)\n        time.sleep(0.0005)\n"
            "threading.Thread(target=chatter, daemon=True).start()"
        )
        await sandbox.execute(code, session=session)
        await asyncio.sleep(0.5)
        late = await sandbox.execute("1", session=session)
        assert late.value == "1"
        assert late.stdout_bytes < 512 << 10

    with_session(sandbox, body)


def test_a_forged_end_of_block_ends_the_session(blocks: Blocks) -> None:
    forged = "import os\nos.write(3, bytes([18, 0, 0, 0, 0, 0, 1, 0, 0, 0] + [0] * 12))\n'x' * 10"
    results = blocks(forged, "1")
    assert ToolStatus.PROTOCOL_ERROR in {results[0].status, results[1].status} or (
        results[1].status is ToolStatus.SESSION_LOST and "protocol_error" in str(results[1].error)
    )


def test_blocks_sent_at_once_run_in_order(sandbox: LocalSandbox) -> None:
    async def body(session: str) -> None:
        await sandbox.execute("x = []", session=session)
        calls = [sandbox.execute(f"x.append({i})\nlen(x)", session=session) for i in range(20)]
        results = await asyncio.gather(*calls)
        assert [result.value for result in results] == [str(i + 1) for i in range(20)]
        assert (await sandbox.execute("x", session=session)).value == str(list(range(20)))

    with_session(sandbox, body)


def test_a_cancelled_block_ends_the_session(sandbox: LocalSandbox) -> None:
    async def body(session: str) -> None:
        task = asyncio.create_task(sandbox.execute("while True: pass", session=session))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await sandbox.execute("1", session=session)).status is ToolStatus.SESSION_LOST

    with_session(sandbox, body)


def test_an_idle_session_holds_no_worker(sandbox: LocalSandbox) -> None:
    async def run() -> None:
        sessions = [await sandbox.open_session() for _ in range(10)]
        for session in sessions:
            await sandbox.execute("x = 1", session=session)
        assert (await sandbox.execute("2")).value == "2"
        for session in sessions:
            await sandbox.close_session(session)

    asyncio.run(run())


def test_closing_a_session_ends_its_process(sandbox: LocalSandbox, zygotes_of: Callable[[int], list[int]]) -> None:
    def num_holders() -> int:
        """Of the session's 64 MiB."""
        children = [Path(f"/proc/{zygote}/task/{zygote}/children") for zygote in zygotes_of(os.getpid())]
        pids = [pid for file in children for pid in file.read_text().split()]
        sizes = [Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in pids if Path(f"/proc/{pid}").exists()]
        return sum(int(size) * os.sysconf("SC_PAGESIZE") > 64 << 20 for size in sizes)

    async def body(session: str) -> None:
        await sandbox.execute("x = b'x' * (64 << 20)", session=session)
        assert num_holders() == 1
        await sandbox.close_session(session)
        assert num_holders() == 0
        assert (await sandbox.execute("1", session=session)).status is ToolStatus.SESSION_LOST

    with_session(sandbox, body)


def test_closing_a_session_answers_what_runs_in_it(sandbox: LocalSandbox) -> None:
    async def body(session: str) -> None:
        tasks = [asyncio.create_task(sandbox.execute("while True: pass", session=session)) for _ in range(3)]
        await asyncio.sleep(0.1)
        await sandbox.close_session(session)
        assert {result.status for result in await asyncio.gather(*tasks)} == {ToolStatus.CANCELLED}

    with_session(sandbox, body)


def test_unknown_sessions_are_lost_and_closing_them_is_harmless(sandbox: LocalSandbox) -> None:
    async def run() -> ToolResult:
        await sandbox.close_session("nobody")
        return await sandbox.execute("1", session="nobody")

    assert asyncio.run(run()).status is ToolStatus.SESSION_LOST


def test_state_lost_through_our_fault_is_an_infrastructure_failure(
    sandbox: LocalSandbox, zygotes_of: Callable[[int], list[int]], end_zygote: Callable[[int], None]
) -> None:
    async def body(session: str) -> None:
        await sandbox.execute("x = 1", session=session)
        for zygote in zygotes_of(os.getpid()):
            end_zygote(zygote)
        for _ in range(2):
            result = await sandbox.execute("x", session=session)
            assert (result.status, result.is_infrastructure_failure) == (ToolStatus.SANDBOX_ERROR, True)

    with_session(sandbox, body)


def test_a_first_block_is_repeated_when_the_process_dies_under_it(
    sandbox: LocalSandbox, zygotes_of: Callable[[int], list[int]]
) -> None:
    async def body(session: str) -> None:
        task = asyncio.create_task(sandbox.execute("import time\ntime.sleep(0.3)\nx = 3", session=session))
        await asyncio.sleep(0.1)
        for zygote in zygotes_of(os.getpid()):
            os.kill(zygote, signal.SIGKILL)
        assert (await task).status is ToolStatus.OK
        assert (await sandbox.execute("x", session=session)).value == "3"

    with_session(sandbox, body)
