from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentmath.config.sandbox import SandboxSection
from agentmath.core.errors import SandboxError
from agentmath.core.types import ToolResult, ToolStatus
from agentmath.sandbox import layers
from agentmath.sandbox.local import LocalSandbox, open_sandbox

Execute = Callable[..., ToolResult]


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
    assert execute("x = bytearray(600 << 20)", memory_bytes=1 << 30, cpu_seconds=20.0).status is ToolStatus.OK
    assert execute("print('x' * 900)", output_bytes=100).status is ToolStatus.OUTPUT_LIMIT
    assert "File too large" in str(execute("open('f', 'wb', buffering=0).write(b'x')", file_bytes=0).error)


@pytest.mark.parametrize("limits", [{"cpu_seconds": 0.0}, {"wall_seconds": float("nan")}, {"memory_bytes": -1}])
def test_limits_that_make_no_sense_are_refused(execute: Execute, limits: dict[str, float]) -> None:
    with pytest.raises(SandboxError, match=f"{next(iter(limits))} = "):
        execute("1", **limits)


def test_limits_beyond_what_the_kernel_takes_are_as_good_as_none(execute: Execute) -> None:
    result = execute("1", cpu_seconds=float("inf"), wall_seconds=1e30, memory_bytes=1 << 70, file_bytes=1 << 70)
    assert result.value == "1"


def test_a_new_childs_kernel_limit_is_the_calls_however_the_two_race(execute: Execute) -> None:
    code = "import resource, time\ntime.sleep(0.05)\nresource.getrlimit(resource.RLIMIT_CPU)[0]"
    for extra in range(20):
        result = execute(code, memory_bytes=(256 << 20) + extra, cpu_seconds=40.0)
        assert int(str(result.value)) >= 41


def test_many_calls_are_queued_and_their_waiting_is_counted_apart(sandbox: LocalSandbox) -> None:
    async def run() -> list[ToolResult]:
        return await asyncio.gather(*[sandbox.execute(f"import time\ntime.sleep(0.01)\n{i}") for i in range(60)])

    results = asyncio.run(run())
    assert [result.value for result in results] == [str(i) for i in range(60)]
    assert max(result.queue_seconds for result in results) > 10 * 0.01


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


def test_code_that_names_no_heavy_module_runs_where_none_is_loaded() -> None:
    async def run() -> list[ToolResult]:
        sandbox = await open_sandbox(SandboxSection(num_workers=1, preload=("numpy",)))
        try:
            code = "import sys\n'num' + 'py' in sys.modules"
            session = await sandbox.open_session()
            early = await sandbox.execute(code)
            named = await sandbox.execute(code + "  # numpy")
            late = await sandbox.execute(code, session=session)
            return [early, named, late]
        finally:
            await sandbox.close()

    # A session takes the loaded zygote once there is one: it may import later what it does not name now.
    assert [result.value for result in asyncio.run(run())] == ["False", "True", "True"]


def test_modules_that_are_not_installed_are_not_preloaded() -> None:
    (result,) = run_without(SandboxSection(num_workers=1, preload=("no_such_module",)), (), "import no_such_module")
    assert result.error == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_module_that_cannot_be_imported_is_named() -> None:
    section = SandboxSection(num_workers=1, preload=("asyncio.windows_events",))
    with pytest.raises(SandboxError, match="cannot start: ImportError: win32 only"):
        run_without(section, (), "import asyncio.windows_events")


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
    if layer == "no_new_privs":
        with pytest.raises(SandboxError, match="cannot be left out"):
            run_without(SandboxSection(), (layer,), "1")
        return
    first, second = run_without(
        SandboxSection(num_workers=1), (layer,), "open('f', 'w').close()", "import os\nos.listdir()"
    )
    assert first.status is ToolStatus.OK, first
    assert second.value == "[]"
    assert layer not in first.layers
    if layer != "seccomp":
        assert "seccomp" in first.layers


def test_without_rlimits_nothing_is_limited() -> None:
    code = "import resource\nresource.getrlimit(resource.RLIMIT_DATA)"
    (result,) = run_without(SandboxSection(num_workers=1), ("rlimits",), code)
    assert result.value == "(-1, -1)"


def test_without_mounts_scratch_folders_are_real_and_removed_at_the_end() -> None:
    code = "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').close()\nprint(os.getcwd())"
    first, second = run_without(SandboxSection(num_workers=1), ("mount_namespace",), code, code)
    assert second.status is ToolStatus.OK
    folder = Path(first.stdout.strip())
    assert folder.parent.name.startswith("agentmath-sandbox-")
    assert not folder.parent.exists()


def test_trusted_keeps_limits_only() -> None:
    section = SandboxSection(mode="trusted", num_workers=1, cpu_seconds=0.3)
    reading, spinning = run_without(section, (), "len(open('/etc/passwd').read()) > 0", "while True: pass")
    assert reading.value == "True"
    assert {"no_new_privs", "rlimits"} <= set(reading.layers) <= {"no_new_privs", "rlimits", "cgroup"}
    assert spinning.status is ToolStatus.CPU_TIMEOUT
