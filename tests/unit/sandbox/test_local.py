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
from agentmath.core.types import ToolResult, ToolStatus
from agentmath.sandbox import layers
from agentmath.sandbox.local import LocalSandbox, open_sandbox

Execute = Callable[..., ToolResult]


def processes_of_session(session_id: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session_id and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_snippet_prints_and_its_trailing_expression_is_echoed(execute: Execute) -> None:
    result = execute("print('hello')\n1 + 1")
    assert result.status is ToolStatus.OK
    assert (result.stdout, result.stdout_bytes, result.value, result.exit_code) == ("hello\n", 6, "2", 0)


def test_the_names_that_programs_expect_are_there(execute: Execute) -> None:
    result = execute("import sys\nprint(__name__, sys.argv, callable(help))\nquit()")
    assert (result.status, result.stdout) == (ToolStatus.OK, "__main__ [''] True\n")
    assert execute("exit(4)").exit_code == 4


def test_facts_are_measured(execute: Execute) -> None:
    result = execute("import time\ntime.sleep(0.2)\nx = bytearray(50 << 20)\nfor _ in range(10**6): pass")
    assert result.wall_seconds >= 0.2
    assert 0.001 < result.cpu_seconds < result.wall_seconds
    assert result.peak_memory_bytes > 50 << 20


def test_every_result_names_the_layers_in_force(execute: Execute, sandbox: LocalSandbox) -> None:
    in_force = tuple(layer.name for layer in sandbox.report() if layer.in_force)
    assert execute("1").layers == in_force
    assert "rlimits" in in_force


def test_standard_input_is_what_was_given(sandbox: LocalSandbox) -> None:
    result = asyncio.run(sandbox.execute("a = input()\nimport sys\n(a, sys.stdin.read())", stdin=b"one\ntwo\n"))
    assert result.value == "('one', 'two\\n')"


@pytest.mark.parametrize("code", ["", "\x00", "x = '\ud800'", "#" * 3_000_000, "\n" * 100_000])
def test_awkward_sources_have_a_result(execute: Execute, code: str) -> None:
    assert execute(code).status in (ToolStatus.OK, ToolStatus.EXCEPTION)


def test_a_large_program_arrives_whole(execute: Execute) -> None:
    assert execute("x = '" + "a" * 5_000_000 + "'\nlen(x)").value == "5000000"


def test_limits_of_one_call_hold_for_that_call(execute: Execute) -> None:
    assert execute("x = bytearray(100 << 20)", memory_bytes=64 << 20).status is ToolStatus.MEMORY
    assert execute("x = bytearray(700 << 20)", memory_bytes=1 << 30, cpu_seconds=9.0).status is ToolStatus.OK
    assert execute("print('x' * 900)", output_bytes=100).status is ToolStatus.OUTPUT_LIMIT
    assert "File too large" in str(execute("open('f', 'wb', buffering=0).write(b'x')", file_bytes=0).error)


@pytest.mark.parametrize("limits", [{"cpu_seconds": 0.0}, {"wall_seconds": float("nan")}, {"memory_bytes": -1}])
def test_limits_that_make_no_sense_are_refused(execute: Execute, limits: dict[str, float]) -> None:
    with pytest.raises(SandboxError, match=f"{next(iter(limits))} = "):
        execute("1", **limits)


def test_limits_beyond_what_the_kernel_takes_are_as_good_as_none(execute: Execute) -> None:
    result = execute("1", cpu_seconds=float("inf"), wall_seconds=1e30, memory_bytes=1 << 70, file_bytes=1 << 70)
    assert result.value == "1"


def test_many_calls_are_queued_and_their_waiting_is_counted_apart(sandbox: LocalSandbox) -> None:
    async def run() -> list[ToolResult]:
        return await asyncio.gather(*[sandbox.execute(f"import time\ntime.sleep(0.01)\n{i}") for i in range(60)])

    results = asyncio.run(run())
    assert [result.value for result in results] == [str(i) for i in range(60)]
    assert max(result.queue_seconds for result in results) > 10 * 0.01
    assert min(result.queue_seconds for result in results) < 0.1


def test_at_most_num_workers_run_at_a_time(sandbox: LocalSandbox) -> None:
    async def run() -> list[ToolResult]:
        code = "import time\nstart = time.monotonic()\ntime.sleep(0.05)\n(start, time.monotonic())"
        return await asyncio.gather(*[sandbox.execute(code) for _ in range(10)])

    spans = [eval(str(result.value)) for result in asyncio.run(run())]
    for start, _ in spans:
        assert sum(a <= start < b for a, b in spans) <= 2


def test_waiting_too_long_is_an_infrastructure_failure() -> None:
    async def run() -> tuple[ToolResult, ToolResult]:
        sandbox = await open_sandbox(SandboxSection(num_workers=1, queue_seconds=0.2))
        try:
            slow = asyncio.create_task(sandbox.execute("import time\ntime.sleep(1)"))
            await asyncio.sleep(0.05)
            return await sandbox.execute("1"), await slow
        finally:
            await sandbox.close()

    late, slow = asyncio.run(run())
    assert (late.status, late.is_infrastructure_failure) == (ToolStatus.QUEUE_TIMEOUT, True)
    assert slow.status is ToolStatus.OK


def test_cancelling_the_task_kills_the_process(sandbox: LocalSandbox) -> None:
    supervisor = sandbox._fleet.links[0].pid
    (zygote,) = children_of(supervisor)

    def sleepers() -> int:
        return sum(Path(f"/proc/{pid}/wchan").read_text() == "hrtimer_nanosleep" for pid in children_of(zygote))

    async def run() -> None:
        task = asyncio.create_task(sandbox.execute("import time\ntime.sleep(60)"))
        before = await sandbox.execute("1")
        assert before.status is ToolStatus.OK
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # A second sleeper would have to wait for a worker if the first still held its own.
        results = await asyncio.gather(*[sandbox.execute("import time\ntime.sleep(0.3)") for _ in range(2)])
        assert max(result.queue_seconds for result in results) < 0.25

    asyncio.run(run())
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


def test_a_killed_zygote_takes_its_children_along_and_is_replaced(sandbox: LocalSandbox) -> None:
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


def test_a_trainer_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
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


def test_closing_ends_everything_and_is_final() -> None:
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


def test_preloaded_modules_are_there_and_reseeded() -> None:
    async def run() -> list[ToolResult]:
        sandbox = await open_sandbox(SandboxSection(num_workers=1, preload=("numpy",)))
        try:
            code = "import sys\nprint('numpy' in sys.modules)\nimport numpy\nprint(numpy.random.rand())"
            return [await sandbox.execute(code) for _ in range(2)]
        finally:
            await sandbox.close()

    first, second = asyncio.run(run())
    assert first.stdout.startswith("True\n")
    assert first.stdout != second.stdout


def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    with pytest.raises(SandboxError, match="no_such_module"):
        asyncio.run(open_sandbox(SandboxSection(preload=("no_such_module",))))


def test_strict_refuses_to_start_without_a_required_layer() -> None:
    with pytest.raises(SandboxError, match=r"landlock \(switched off\)"):
        asyncio.run(open_sandbox(SandboxSection(mode="strict"), without=("landlock",)))


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(SandboxError, match="no such isolation layer"):
        LocalSandbox(SandboxSection(), without=("moat",))


def run_without(section: SandboxSection, without: tuple[str, ...], *codes: str) -> list[ToolResult]:
    async def run() -> list[ToolResult]:
        sandbox = await open_sandbox(section, without=without)
        try:
            return [await sandbox.execute(code) for code in codes]
        finally:
            await sandbox.close()

    return asyncio.run(run())


@pytest.mark.parametrize("layer", list(layers.LEAVES_OPEN))
def test_each_layer_can_be_missing_and_is_then_reported_so(layer: str) -> None:
    if layer in ("no_new_privs", "rlimits"):
        pytest.skip("always there")
    first, second = run_without(
        SandboxSection(num_workers=1), (layer,), "open('f', 'w').close()", "import os\nos.listdir()"
    )
    assert first.status is ToolStatus.OK, first
    assert second.value == "[]"
    assert layer not in first.layers
    if layer != "seccomp":
        assert "seccomp" in first.layers


def test_without_mounts_scratch_folders_are_real_and_removed_at_the_end() -> None:
    before = set(Path("/tmp").glob("agentmath-sandbox-*"))
    code = "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').close()\nprint(os.getcwd())"
    first, second = run_without(SandboxSection(num_workers=1), ("mount_namespace",), code, code)
    assert second.status is ToolStatus.OK
    assert not Path(first.stdout.strip()).exists()
    assert set(Path("/tmp").glob("agentmath-sandbox-*")) <= before


def test_trusted_keeps_limits_only() -> None:
    section = SandboxSection(mode="trusted", num_workers=1, cpu_seconds=0.3)
    reading, spinning = run_without(section, (), "len(open('/etc/passwd').read()) > 0", "while True: pass")
    assert reading.value == "True"
    assert reading.layers == ("no_new_privs", "rlimits")
    assert spinning.status is ToolStatus.CPU_TIMEOUT
