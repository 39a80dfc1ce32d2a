"""Cancelling, closing, and processes that are killed from outside."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def test_cancelling_the_task_kills_the_process(sandbox: LocalSandbox, zygotes_of: ProcessesOf) -> None:
    (zygote,) = zygotes_of(os.getpid())

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
    assert not sandbox._calls


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
    assert not sandbox._calls


def test_a_killed_zygote_takes_its_children_along_and_its_calls_are_repeated(
    sandbox: LocalSandbox, zygotes_of: ProcessesOf, processes_of_session: ProcessesOf
) -> None:
    (zygote,) = zygotes_of(os.getpid())

    async def run() -> list[ToolResult]:
        tasks = [asyncio.create_task(sandbox.execute(f"import time\ntime.sleep(0.2)\n{i}")) for i in range(6)]
        await asyncio.sleep(0.1)
        os.kill(zygote, signal.SIGKILL)
        return await asyncio.gather(*tasks)

    assert [result.value for result in asyncio.run(run())] == [str(i) for i in range(6)]
    wait_until(lambda: not processes_of_session(zygote))


def test_a_killed_process_1_of_the_childrens_namespace_is_survived(
    sandbox: LocalSandbox, zygotes_of: ProcessesOf, needs_layer: Callable[[str], None]
) -> None:
    needs_layer("pid_namespace")
    (zygote,) = zygotes_of(os.getpid())
    os.kill(min(children_of(zygote)), signal.SIGKILL)
    assert asyncio.run(sandbox.execute("6")).value == "6"


def test_a_call_whose_zygote_dies_twice_is_a_sandbox_error(sandbox: LocalSandbox, zygotes_of: ProcessesOf) -> None:
    async def run() -> ToolResult:
        task = asyncio.create_task(sandbox.execute("import time\ntime.sleep(3)"))
        killed: list[int] = []
        while len(killed) < 2:
            await asyncio.sleep(0.05)
            young = [pid for pid in zygotes_of(os.getpid()) if pid not in killed and len(children_of(pid)) >= 2]
            if young:
                await asyncio.sleep(0.3)  # the call is under way
                os.kill(young[0], signal.SIGKILL)
                killed += young
        return await task

    result = asyncio.run(run())
    assert (result.status, result.is_infrastructure_failure) == (ToolStatus.SANDBOX_ERROR, True)
    assert asyncio.run(sandbox.execute("8")).value == "8"


def test_a_trainer_that_is_killed_leaves_no_process(
    tmp_path: Path, processes_of_session: ProcessesOf, zygotes_of: ProcessesOf
) -> None:
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
                print(forked, flush=True)
                await asyncio.gather(*[sandbox.execute("import time; time.sleep(60)") for _ in range(5)])

            asyncio.run(main())
        """)
    )
    trainer = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert trainer.stdout is not None
    try:
        forked = int(trainer.stdout.readline())
        (zygote,) = zygotes_of(trainer.pid)
        wait_until(lambda: len(processes_of_session(zygote)) >= 4)
        trainer.kill()
        trainer.wait()
        wait_until(lambda: not processes_of_session(zygote))
        assert forked in processes_of_session(trainer.pid)
    finally:
        os.killpg(trainer.pid, signal.SIGKILL)
        trainer.stdout.close()


def test_closing_ends_everything_and_is_final(processes_of_session: ProcessesOf, zygotes_of: ProcessesOf) -> None:
    async def run() -> tuple[int, ToolResult]:
        others = zygotes_of(os.getpid())
        sandbox = await open_sandbox(SandboxSection(num_workers=2))
        (zygote,) = set(zygotes_of(os.getpid())) - set(others)
        task = asyncio.create_task(sandbox.execute("while True: pass"))
        await asyncio.sleep(0.05)
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.execute("1")
        with pytest.raises(SandboxError, match="closed"):
            sandbox.execute_blocking("1")
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.open_session()
        return zygote, await task

    num_descriptors = len(os.listdir("/proc/self/fd"))
    zygote, result = asyncio.run(run())
    assert result.status is ToolStatus.CANCELLED
    assert processes_of_session(zygote) == []
    assert len(os.listdir("/proc/self/fd")) == num_descriptors


def test_threads_execute_side_by_side_without_an_event_loop(sandbox: LocalSandbox) -> None:
    with ThreadPoolExecutor(4) as threads:
        values = threads.map(lambda i: sandbox.execute_blocking(f"{i} * {i}").value, range(20))
        assert list(values) == [str(i * i) for i in range(20)]


def test_a_blocking_call_can_be_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "blocking.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio
            from agentmath.config.sandbox import SandboxSection
            from agentmath.sandbox.local import open_sandbox

            sandbox = asyncio.run(open_sandbox(SandboxSection(cpu_seconds=60, wall_seconds=60)))
            print("ready", flush=True)
            try:
                sandbox.execute_blocking("while True: pass")
            except KeyboardInterrupt:
                print("value", sandbox.execute_blocking("6 * 7").value)
            asyncio.run(sandbox.close())
        """)
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "ready\n"
        time.sleep(0.2)
        caller.send_signal(signal.SIGINT)
        assert caller.stdout.read() == "value 42\n"


def test_a_forked_process_is_told_that_the_sandbox_is_not_its_own(sandbox: LocalSandbox) -> None:
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            sandbox.execute_blocking("1")
        except SandboxError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        assert "forked" in told.read()
    assert sandbox.execute_blocking("1").value == "1"


def test_a_sandbox_that_nobody_closed_does_not_outlive_its_process(tmp_path: Path) -> None:
    script = tmp_path / "careless.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio
            from agentmath.config.sandbox import SandboxSection
            from agentmath.sandbox.local import open_sandbox

            sandbox = asyncio.run(open_sandbox(SandboxSection()))
            print(sandbox.execute_blocking("6 * 7").value)
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_a_seed_makes_every_source_of_randomness_repeat(sandbox: LocalSandbox) -> None:
    code = "import random, secrets, uuid\n(random.random(), secrets.token_hex(8), str(uuid.uuid4()))"

    def value(seed: int | None) -> str | None:
        return sandbox.execute_blocking(code, seed=seed).value

    assert value(5) == value(5) != value(6)
    assert value(None) != value(None)


@pytest.mark.parametrize(
    "code", ["import random\nrandom.random()", "import os\nos.urandom(4)", "import uuid\nuuid.uuid4()"]
)
def test_a_sessions_seed_covers_all_its_blocks_and_leaves_a_programs_own_seed_alone(
    sandbox: LocalSandbox, code: str
) -> None:
    own = "import random\nrandom.seed(3)"
    blocks = ("1 + 1", code, code, own, "random.random()")

    async def values(seed: int | None) -> list[str | None]:
        session = await sandbox.open_session(seed=seed)
        found = [(await sandbox.execute(block, session=session)).value for block in blocks]
        await sandbox.close_session(session)
        return found

    first, again, other, fresh = (asyncio.run(values(seed)) for seed in (5, 5, 6, None))
    assert first == again
    for different in (other, fresh):
        assert different[1] != first[1]
    assert first[1] != first[2]
    assert {found[4] for found in (first, other, fresh)} == {str(random.Random(3).random())}
    assert not sandbox._session_seeds


def test_numpy_that_is_loaded_late_is_seeded_too(sandbox: LocalSandbox) -> None:
    code = "numpy = __import__('num' + 'py')\n(numpy.random.random(), numpy.random.default_rng().random())"

    def value(seed: int) -> str | None:
        result = sandbox.execute_blocking(code, seed=seed)
        assert result.status is ToolStatus.OK, result
        return result.value

    assert value(5) == value(5) != value(6)
