"""Runs many snippets, some of them hostile, and counts wrong statuses and what is left: processes, descriptors, files,
mounts, control groups, memory.

    python bench/sandbox_soak.py --runs 20000 --hostile-share 0.2 --json
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolStatus
from agentmath.sandbox.footprint import descendants
from agentmath.sandbox.local import LocalSandbox, open_sandbox

S = ToolStatus
_THREAD = "threading.Thread(target=time.sleep, args=(9,), daemon=True)"
_WARM_UP_SHARE = 0.25
"""Of the runs, before memory counts as settled."""
_SAMPLES = 40
_MOUNT_PLACES = ("/mnt", "/srv", "/media", "/opt", "/home", "/proc/", "/dev/shm/")
"""Where a sandbox mounts scratch folders; other programs mount things too."""
_PATIENCE_SECONDS = 20.0
_LIMITS = Limits(cpu_seconds=0.1, wall_seconds=30.0, memory_bytes=64 << 20, output_bytes=4000, file_bytes=1 << 20)
_WAITING = Limits(cpu_seconds=10.0, wall_seconds=0.1, memory_bytes=64 << 20, output_bytes=4000, file_bytes=1 << 20)


@dataclass(frozen=True)
class Snippet:
    """Code, the statuses it may have, and its value when it has one."""

    code: str
    statuses: frozenset[ToolStatus]
    value: str | None = None
    limits: Limits = _LIMITS


def _benign(i: int) -> Snippet:
    """Snippet i prints or computes something of its own, so that a mixed-up answer would show."""
    codes = [
        (f"print({i})\n{i} * 2", str(i * 2)),
        (f"import math\nmath.isqrt({i} ** 2)", str(i)),
        (f"open('f', 'w').write('{i}')\nint(open('f').read())", str(i)),
        (f"from fractions import Fraction\nFraction({i}, 1) + 1 == {i + 1}", "True"),
        (f"import json\njson.loads('[{i}]')[0]", str(i)),
    ]
    code, value = codes[i % len(codes)]
    return Snippet(code, frozenset({S.OK}), value, limits=Limits(cpu_seconds=5.0, memory_bytes=64 << 20))


def _hostile() -> list[Snippet]:
    def one(code: str, *statuses: ToolStatus, limits: Limits = _LIMITS) -> Snippet:
        return Snippet(code, frozenset(statuses), limits=limits)

    return [
        one("while True: pass", S.CPU_TIMEOUT),
        one("pow(3, 10**9)", S.CPU_TIMEOUT),
        one("import time\ntime.sleep(60)", S.WALL_TIMEOUT, limits=_WAITING),
        one("import os, time\nos.closerange(0, 99)\ntime.sleep(60)", S.WALL_TIMEOUT, limits=_WAITING),
        one("x = []\nwhile True: x.append('x' * 1_000_000)", S.MEMORY, S.CPU_TIMEOUT),
        one("bytearray(10 << 30)", S.MEMORY),
        one("while True: print('x' * 10_000)", S.OUTPUT_LIMIT),
        one("import os\nos.write(3, b'junk' * 99)\nimport time\ntime.sleep(9)", S.PROTOCOL_ERROR),
        one("import os\nos.abort()", S.SIGNAL),
        one("import ctypes\nctypes.string_at(0)", S.SIGNAL),
        one("import os\nos._exit(9)", S.EXIT),
        one("import os\nos.fork()", S.EXCEPTION),
        one("import socket\nsocket.socket()", S.EXCEPTION),
        one("open('/etc/shadow').read()", S.EXCEPTION),
        one("import ctypes\nctypes.CDLL(None).syscall(246, 0, 0, 0, 0)", S.SYSCALL_VIOLATION, S.EXCEPTION, S.OK),
        one("for i in range(500): open(str(i), 'w').close()", S.OK, S.EXCEPTION),
        one("import os\nfor _ in range(60):\n    os.mkdir('d')\n    os.chdir('d')", S.OK),
        one(f"import threading, time\nfor _ in range(30): {_THREAD}.start()", S.OK, S.EXCEPTION),
        one("print('x' * 20_000)", S.OK),
        one("1 / 0", S.EXCEPTION),
    ]  # fmt: skip


class _Traces:
    """What a sandbox could leave behind, as seen from this process."""

    def __init__(self) -> None:
        self.processes = len(descendants(os.getpid(), with_zombies=True))
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.threads = len(os.listdir("/proc/self/task"))
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        self.mounts = sum(place.startswith(_MOUNT_PLACES) for place in mounts)
        self.names = {
            str(path) for place in ("/tmp", "/var/tmp", "/dev/shm") for path in Path(place).glob("*agentmath-sandbox*")
        }
        self.names |= {path for path, _, _ in os.walk("/sys/fs/cgroup") if "agentmath" in path}

    def since(self, earlier: _Traces) -> dict[str, Any]:
        """What there is more of than earlier."""
        found: dict[str, Any] = {
            name: getattr(self, name) - getattr(earlier, name)
            for name in ("processes", "descriptors", "threads", "mounts")
        }
        found["files"] = sorted(name for name in self.names - earlier.names if not _is_in_use(name))
        return {name: what for name, what in found.items() if what and what != 0}


def _is_in_use(name: str) -> bool:
    """Another sandbox may be at work on this machine: its name holds its trainer's pid, or somebody stands in its
    folder."""
    named = re.search(r"agentmath-sandbox-(\d+)-", name)
    if named is not None and int(named[1]) != os.getpid() and os.path.exists(f"/proc/{named[1]}"):
        return True
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(cwd).startswith(name + "/"):
                return True
        except OSError:
            continue
    return False


def _resident_mib(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class _Soak:
    """One run: the plan, its workers, and the samples of memory on the way."""

    def __init__(self, runs: int, hostile_share: float, *, seed: int, session_share: float = 0.1) -> None:
        rng = random.Random(seed)
        hostile = _hostile()
        self._plan = [rng.choice(hostile) if rng.random() < hostile_share else _benign(i) for i in range(runs)]
        self._in_session = [rng.random() < session_share for _ in range(runs)]
        self._next = 0
        self.counts: Counter[str] = Counter()
        self.num_wrong = 0
        self.wrong: list[str] = []
        """Words on the first of them."""
        self.memory: list[float] = []

    async def work(self, sandbox: LocalSandbox, *, at_once: int) -> None:
        await asyncio.gather(*(self._worker(sandbox) for _ in range(at_once)))

    async def _worker(self, sandbox: LocalSandbox) -> None:
        while self._next < len(self._plan):
            number = self._next
            self._next += 1
            if number % max(1, len(self._plan) // _SAMPLES) == 0:
                self.memory.append(_keepers_mib())
            await self._run(sandbox, self._plan[number], in_session=self._in_session[number])

    async def _run(self, sandbox: LocalSandbox, snippet: Snippet, *, in_session: bool) -> None:
        session = await sandbox.open_session() if in_session else None
        result = await sandbox.execute(snippet.code, limits=snippet.limits, session=session)
        if session is not None:
            await sandbox.close_session(session)
        self.counts[result.status.value] += 1
        is_right = result.status in snippet.statuses and snippet.value in (None, result.value)
        self.num_wrong += not is_right
        if not is_right and len(self.wrong) < 20:
            self.wrong.append(f"{result.status.value} {result.error!r} value {result.value!r} of {snippet.code!r}")


def _keepers_mib() -> float:
    """Memory of this process and its direct children: what lives as long as the sandbox does."""
    children = [child for task in Path("/proc/self/task").glob("*/children") for child in task.read_text().split()]
    return sum(_resident_mib(pid) for pid in (os.getpid(), *map(int, children)))


def measure(runs: int, hostile_share: float, *, at_once: int = 8, seed: int = 0) -> dict[str, Any]:
    """Soak a sandbox and report: counts by status, wrong answers, leftovers, growth of memory in MiB."""
    before = _Traces()
    soak = _Soak(runs, hostile_share, seed=seed)
    seconds = asyncio.run(_carry_out(soak, at_once=at_once))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (leftovers := _Traces().since(before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    settled = soak.memory[int(len(soak.memory) * _WARM_UP_SHARE) :]
    middle = len(settled) // 2
    return {
        "runs": runs,
        "seconds": round(seconds, 2),
        "counts": dict(soak.counts),
        "num_wrong": soak.num_wrong,
        "wrong": soak.wrong,
        "leftovers": leftovers,
        "memory_growth_mib": round(min(settled[middle:]) - min(settled[:middle]), 2),
        "memory_mib": [round(mib, 1) for mib in soak.memory],
    }


async def _carry_out(soak: _Soak, *, at_once: int) -> float:
    """Open a sandbox, run all, close it; the seconds between."""
    sandbox = await open_sandbox(SandboxSection(num_workers=at_once))
    start = time.perf_counter()
    try:
        await soak.work(sandbox, at_once=2 * at_once)
        return time.perf_counter() - start
    finally:
        await sandbox.close()


def main(arguments: Sequence[str] | None = None) -> None:
    from common import emit, record

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--hostile-share", type=float, default=0.2)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    body = measure(options.runs, options.hostile_share, at_once=options.at_once, seed=options.seed)
    lines = [f"{name}: {what}" for name, what in body.items()]
    emit(record("sandbox_soak", vars(options), body), as_json=options.json, lines=lines)
    if body["wrong"] or body["leftovers"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
