"""Nothing is left and nothing grows: processes, descriptors, threads, files, mounts, control groups, memory."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from attack import try_attack
from attack_list import ATTACKS
from canaries import Canaries
from census import Census, resident_bytes

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox.footprint import children_by_parent, descendants
from agentmath.sandbox.local import LocalSandbox, open_sandbox

MIB = 1 << 20
SOAK_RUNS = 300
PATIENCE_SECONDS = 15.0


@contextlib.asynccontextmanager
async def opened(*, num_workers: int = 2) -> AsyncIterator[LocalSandbox]:
    """Closed even when the test fails, which then is told once and not again as a leftover."""
    sandbox = await open_sandbox(SandboxSection(num_workers=num_workers))
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def comes_true(condition: Callable[[], bool]) -> bool:
    """False when it has not within a time that is ample for what is only slow to go on a loaded machine."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


@pytest.fixture
def census() -> Iterator[Census]:
    """Nothing may be left of what the test did."""
    before = Census.take_when_settled()
    yield before
    assert before.leftovers() == {}


def test_a_sandbox_that_was_only_opened_leaves_nothing(census: Census) -> None:
    async def run() -> None:
        for _ in range(3):
            sandbox = await open_sandbox(SandboxSection(num_workers=2))
            await sandbox.close()

    asyncio.run(run())


def test_a_sandbox_closed_over_running_hostile_code_leaves_nothing(census: Census) -> None:
    codes = [
        "while True: pass",
        "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(60)",
        "import os, time\nos.closerange(0, 99)\ntime.sleep(60)",
        "import os\nfor _ in range(500):\n    os.mkdir('d')\n    os.chdir('d')\nwhile True: pass",
        "while True: print('x')",
    ]

    async def run() -> list[ToolResult]:
        sandbox = await open_sandbox(SandboxSection(num_workers=4))
        session = await sandbox.open_session()
        await sandbox.execute("x = 1", session=session)
        limits = Limits(cpu_seconds=60, wall_seconds=60, output_bytes=1 << 30)
        tasks = [asyncio.create_task(sandbox.execute(code, limits=limits)) for code in codes * 2]
        await asyncio.sleep(0.3)
        await sandbox.close()
        return await asyncio.gather(*tasks)

    assert {result.status for result in asyncio.run(run())} <= {ToolStatus.CANCELLED, ToolStatus.EXCEPTION}


def test_processes_and_descriptors_stay_the_same_while_snippets_come_and_go(census: Census) -> None:
    async def run() -> None:
        async with opened() as sandbox:
            for _ in range(5):
                await sandbox.execute("1")
            keepers = children_by_parent()[os.getpid()]
            before = descriptors_of(keepers)
            num_processes = len(descendants(os.getpid()))
            for i in range(100):
                session = await sandbox.open_session() if i % 3 == 0 else None
                code = "import os\nos._exit(1)" if i % 2 else "open('f', 'w').write('x')"
                await sandbox.execute(code, session=session)
                if session is not None:
                    await sandbox.close_session(session)
            assert await comes_true(lambda: len(descendants(os.getpid())) <= num_processes + 2)
            assert children_by_parent()[os.getpid()] == keepers
            assert await comes_true(
                lambda: all(now <= then + 12 for then, now in zip(before, descriptors_of(keepers), strict=True))
            ), (before, descriptors_of(keepers))

    asyncio.run(run())


def descriptors_of(keepers: list[int]) -> list[int]:
    """Of this process and the zygotes. A zygote hides its memory and so its list from all but root: to others the
    kernel tells the size of the table, which doubles when it is full."""

    def count(pid: int) -> int:
        folder = Path(f"/proc/{pid}/fd")
        if os.access(folder, os.R_OK):
            return len(os.listdir(folder))
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(fields["FDSize"])

    return [count(pid) for pid in (os.getpid(), *keepers)]


def test_a_flood_of_output_does_not_grow_the_trainer(census: Census) -> None:
    async def run() -> None:
        async with opened() as sandbox:
            limits = Limits(cpu_seconds=30, wall_seconds=60, output_bytes=1000, memory_bytes=64 * MIB)
            flood = "import os\nwhile True: os.write(1, bytes(65536))"
            for _ in range(5):
                await sandbox.execute(flood, limits=limits)
            keepers = [os.getpid(), *children_by_parent()[os.getpid()]]
            before = sum(map(resident_bytes, keepers))
            for _ in range(40):
                assert (await sandbox.execute(flood, limits=limits)).status is ToolStatus.OUTPUT_LIMIT
            assert sum(map(resident_bytes, keepers)) < before + 8 * MIB

    asyncio.run(run())


def test_lost_and_unclosed_sessions_are_gone_at_the_end(census: Census) -> None:
    async def run() -> None:
        async with opened() as sandbox:
            for code in ("x = 1", "import os\nos._exit(0)", "import ctypes\nctypes.string_at(0)") * 5:
                await sandbox.execute(code, session=await sandbox.open_session())

    asyncio.run(run())


def test_cancelled_calls_leave_nothing(census: Census) -> None:
    async def run() -> None:
        async with opened() as sandbox:
            for pause in (0.0, 0.01, 0.05, 0.2):
                tasks = [asyncio.create_task(sandbox.execute("while True: pass")) for _ in range(6)]
                await asyncio.sleep(pause)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            assert (await sandbox.execute("5")).value == "5"

    asyncio.run(run())


def test_random_numbers_differ_between_snippets(sandbox: LocalSandbox) -> None:
    code = (
        "import random, uuid, secrets, os\n"
        "print(random.random(), uuid.uuid4(), secrets.token_hex(), os.urandom(9).hex())"
    )
    words = [asyncio.run(sandbox.execute(code)).stdout.split() for _ in range(4)]
    assert all(len(set(column)) == 4 for column in zip(*words, strict=True))


def test_attacks_side_by_side_disturb_nobody(sandbox: LocalSandbox, canaries: Canaries) -> None:
    """Ordinary snippets get their own answers while others misbehave."""
    chosen = [attack for attack in ATTACKS if not attack.alone][::9]

    async def run() -> list[ToolResult]:
        ordinary = [sandbox.execute(f"import time\ntime.sleep(0.01)\n{i} * 3") for i in range(60)]
        attacks = [try_attack(attack, sandbox, canaries, is_in_a_hurry=True) for attack in chosen]
        return (await asyncio.gather(*ordinary, *attacks))[:60]  # type: ignore[return-value]

    assert [result.value for result in asyncio.run(run())] == [str(i * 3) for i in range(60)]


def test_a_short_soak_leaves_nothing_and_tells_no_lie(census: Census, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[4] / "bench"))
    measure = importlib.import_module("sandbox_soak").measure

    outcome = measure(SOAK_RUNS, 0.2, at_once=6)
    sys.modules.pop("sandbox_soak")
    assert (outcome["num_wrong"], outcome["wrong"]) == (0, [])
    assert outcome["leftovers"] == {}
    assert sum(outcome["counts"].values()) == SOAK_RUNS
    assert outcome["memory_growth_mib"] < 8
