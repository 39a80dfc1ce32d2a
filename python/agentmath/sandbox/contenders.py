"""The executions whose time is measured: the sandbox's own, and what they are compared with, all ready at once."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolStatus
from agentmath.sandbox import baselines, library
from agentmath.sandbox.baselines import CannotMeasureError, EmptyForks, Timing
from agentmath.sandbox.local import LocalSandbox, limits_of, open_sandbox

PRINT, PRINTED = "print(1)", "1\n"
KILL_AFTER_SECONDS = 0.05
_CUBIC = 'from sympy import Symbol, solve; x = Symbol("x"); print(len(solve(x**3 + {}*x + 1, x)))'
"""Irreducible with one real root for every positive coefficient, so that all are the same work."""
_CUBIC_ROOTS = "3\n"
_PRELOADED = ("numpy", "sympy")
_QUEUE_SECONDS = 600.0
_OTHER_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One row of the benchmark. Its functions raise CannotMeasureError when this machine does not do it rightly."""

    name: str
    meaning: str
    once: Callable[[], Awaitable[Timing]]
    """One execution while nothing else runs."""
    lane: Callable[[int], Awaitable[Timing]] | None = None
    """One execution in the lane of this number, while other lanes are busy too; None where a rate means nothing."""
    is_slow: bool = False
    """Takes so long that it is measured in some of the rounds only."""


@dataclass(slots=True, kw_only=True)
class Contest:
    """Everything that is compared, started and ready."""

    num_lanes: int
    bare: LocalSandbox
    """Nothing preloaded."""
    loaded: LocalSandbox | None = None
    """numpy and sympy preloaded; None where sympy is missing."""
    contenders: list[Contender] = field(default_factory=list[Contender])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Row: why this machine does not have it."""


@asynccontextmanager
async def open_contest(num_lanes: int) -> AsyncIterator[Contest]:
    """All contenders that this machine has; num_lanes: executions at the same time. Raises SandboxError."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentmath-latency-")))
        forks = stack.enter_context(EmptyForks())
        bare_section, loaded_section = (
            SandboxSection(num_workers=num_lanes, queue_seconds=_QUEUE_SECONDS, preload=names)
            for names in ((), _PRELOADED)
        )
        contest = Contest(num_lanes=num_lanes, bare=await open_sandbox(bare_section))
        stack.push_async_callback(contest.bare.close)
        missing = [name for name in _PRELOADED if importlib.util.find_spec(name) is None]
        if missing:
            contest.left_out |= dict.fromkeys(("subprocess_sympy", "parked_sympy"), f"not installed: {missing}")
        else:
            contest.loaded = await open_sandbox(loaded_section)
            stack.push_async_callback(contest.loaded.close)
        contest.contenders += _processes(contest, folder)
        contest.contenders += _executions(contest.bare, contest.loaded, bare_section)
        contest.contenders.append(await _session_block(contest))
        contest.contenders.append(
            Contender(
                name="empty_fork",
                meaning="calibration: fork and reap of a child of a bare interpreter that leaves at once",
                once=partial(_at_once, forks.once),
            )
        )
        yield contest


def _processes(contest: Contest, folder: Path) -> Iterator[Contender]:
    """An interpreter started for each execution; rows that this machine does not have go to contest.left_out."""
    try:
        python = baselines.clean_python(folder)
    except CannotMeasureError as error:
        contest.left_out |= dict.fromkeys(("subprocess_print", "subprocess_sympy", "bubblewrap_print"), str(error))
        return
    yield _process(
        "subprocess_print",
        "subprocess.run of `python -I -c print(1)`, site-packages empty",
        partial(baselines.run_process, baselines.python_command(python, PRINT), PRINTED),
    )
    if contest.loaded is not None:
        search, cubics = library.package_folders(), itertools.count(1)

        def solve() -> Timing:
            command = baselines.python_command(python, _CUBIC.format(next(cubics)), search=search)
            return baselines.run_process(command, _CUBIC_ROOTS)

        meaning = "the same with `import sympy` and a cubic to solve"
        yield _process("subprocess_sympy", meaning, solve, is_slow=True)
    try:
        wrapped = baselines.bubblewrap_command(python, PRINT)
    except CannotMeasureError as error:
        contest.left_out["bubblewrap_print"] = str(error)
        return

    def run_wrapped() -> Timing:
        # bwrap does not reap what runs in its namespaces, so that its children's time is not among its own.
        return baselines.run_process(wrapped, PRINTED)._replace(cpu_seconds=None)

    meaning = "subprocess_print inside bwrap --unshare-all, root read-only"
    yield _process("bubblewrap_print", meaning, run_wrapped)


def _process(name: str, meaning: str, run: Callable[[], Timing], *, is_slow: bool = False) -> Contender:
    """Alone it is called directly, beside others in a thread, whose hand-over is not to be counted when alone."""
    return Contender(
        name=name,
        meaning=meaning,
        once=partial(_at_once, run),
        lane=lambda _: asyncio.to_thread(run),
        is_slow=is_slow,
    )


async def _at_once(run: Callable[[], Timing]) -> Timing:
    return run()


def _executions(bare: LocalSandbox, loaded: LocalSandbox | None, section: SandboxSection) -> Iterator[Contender]:
    """Calls of the sandbox, each in a process that nobody used before."""

    async def parked(_: int = 0) -> Timing:
        return await timed_execution(bare, PRINT, PRINTED)

    async def forked(_: int = 0) -> Timing:
        other = section.memory_bytes + _OTHER_LIMIT_BYTES
        return await timed_execution(bare, PRINT, PRINTED, limits=replace(limits_of(section), memory_bytes=other))

    async def killed() -> Timing:
        limits = replace(limits_of(section), cpu_seconds=KILL_AFTER_SECONDS)
        done = await timed_execution(bare, "while True: pass", "", limits=limits, status=ToolStatus.CPU_TIMEOUT)
        return done._replace(seconds=done.seconds - KILL_AFTER_SECONDS)

    yield Contender(name="parked_print", meaning="print(1) in a child that stood ready", once=parked, lane=parked)
    meaning = "print(1) with a memory limit of its own, which no child that stands ready has"
    yield Contender(name="fork_print", meaning=meaning, once=forked, lane=forked)
    meaning = f"`while True: pass` under {KILL_AFTER_SECONDS:g} s of CPU time: time beyond the limit"
    yield Contender(name="kill_to_report", meaning=meaning, once=killed)
    if loaded is None:
        return
    ready, cubics = loaded, itertools.count(1)

    async def solve(_: int = 0) -> Timing:
        return await timed_execution(ready, _CUBIC.format(next(cubics)), _CUBIC_ROOTS)

    meaning = "the cubic of subprocess_sympy in a child that stood ready with numpy and sympy loaded"
    yield Contender(name="parked_sympy", meaning=meaning, once=solve, lane=solve)


async def _session_block(contest: Contest) -> Contender:
    sessions = [await contest.bare.open_session() for _ in range(contest.num_lanes)]
    counts = [0] * contest.num_lanes
    for session in sessions:
        await contest.bare.execute("x = 0", session=session)

    async def count(lane: int = 0) -> Timing:
        counts[lane] += 1
        expected = f"{counts[lane]}\n"
        return await timed_execution(contest.bare, "x += 1; print(x)", expected, session=sessions[lane])

    meaning = "`x += 1; print(x)` in a session that is open"
    return Contender(name="session_block", meaning=meaning, once=count, lane=count)


async def timed_execution(
    sandbox: LocalSandbox,
    code: str,
    expected: str,
    *,
    limits: Limits | None = None,
    session: str | None = None,
    status: ToolStatus = ToolStatus.OK,
) -> Timing:
    """One call, from the caller's side. Raises CannotMeasureError unless it ends and prints as expected."""
    start = time.perf_counter()
    result = await sandbox.execute(code, limits=limits, session=session)
    seconds = time.perf_counter() - start
    if result.status is not status or result.stdout != expected:
        said = result.error or result.stderr.strip() or repr(result.stdout[:80])
        raise CannotMeasureError(f"{code!r} ended with status {result.status} instead of {status}: {said}")
    return Timing(seconds, result.cpu_seconds)
