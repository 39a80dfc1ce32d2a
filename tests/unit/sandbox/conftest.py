"""One sandbox per test module, and the count of what it leaves behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolResult
from agentmath.sandbox.local import LocalSandbox, open_sandbox

Execute = Callable[..., ToolResult]


_IS_EXITING = 0x4
"""Flag of a process that will run no more code, but is not gone before others are reaped."""


def processes_of_session(session_id: int) -> list[int]:
    """Pids of living processes that belong to a POSIX session, which children cannot leave.

    Process 1 of a pid namespace ends when all in it are reaped. After a zygote was killed that is up to the machine's
    own process 1, which may take its time.
    """
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        is_alive = fields[0] != "Z" and not int(fields[6]) & _IS_EXITING
        if int(fields[3]) == session_id and is_alive:
            found.append(int(entry.name))
    return found


def zygotes_of(trainer: int) -> list[int]:
    """Pids of the zygotes that a trainer's sandboxes have started, the oldest first; each leads a POSIX session."""
    found: list[int] = []
    for task in Path(f"/proc/{trainer}/task").iterdir():
        for word in (task / "children").read_text().split():
            if b"sandbox/boot.py" in Path(f"/proc/{word}/cmdline").read_bytes():
                found.append(int(word))
    return sorted(found)


def end_zygote(zygote: int) -> None:
    """Kill a zygote and wait for all of its children: each may still answer until the kernel's signal reaches it."""
    os.kill(zygote, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while left := processes_of_session(zygote):
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def open_descriptors() -> int:
    gc.collect()  # an event loop that another test has forgotten must not be closed in between
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    section = SandboxSection(cpu_seconds=1.0, wall_seconds=5.0, num_workers=2)
    before = open_descriptors()
    opened = asyncio.run(open_sandbox(section))
    sessions = zygotes_of(os.getpid())
    yield opened
    sessions += zygotes_of(os.getpid())
    asyncio.run(opened.close())
    deadline = time.monotonic() + 20  # the kernel takes its time over the children of a zygote that was killed
    while left := [pid for session in sessions for pid in processes_of_session(session)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
    assert open_descriptors() == before


@pytest.fixture(name="processes_of_session")
def processes_of_session_fixture() -> Callable[[int], list[int]]:
    return processes_of_session


@pytest.fixture(name="zygotes_of")
def zygotes_of_fixture() -> Callable[[int], list[int]]:
    return zygotes_of


@pytest.fixture(name="end_zygote")
def end_zygote_fixture() -> Callable[[int], None]:
    return end_zygote


@pytest.fixture
def execute(sandbox: LocalSandbox) -> Execute:
    def call(code: str, **settings: float) -> ToolResult:
        limits = Limits(**({"cpu_seconds": 1.0, "wall_seconds": 5.0} | settings))  # type: ignore[arg-type]
        return asyncio.run(sandbox.execute(code, limits=limits))

    return call


@pytest.fixture
def needs_layer(sandbox: LocalSandbox) -> Callable[[str], None]:
    def check(name: str) -> None:
        for layer in sandbox.report():
            if layer.name == name and not layer.in_force:
                pytest.skip(f"this machine gives no {name}: {layer.why_not}")

    return check
