"""How long an execution takes on this machine, beside a process of its own; the measuring part of the benchmark.

    for each part:  rounds of one execution of every row (times)
                    every row in as many lanes as there are cores (rates)
                    a burst of calls at once (queue)

All rows take turns within every part, so that other load on the machine meets all of them alike.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

from agentmath.sandbox import footprint
from agentmath.sandbox.baselines import CannotMeasureError, Timing
from agentmath.sandbox.contenders import PRINT, PRINTED, Contender, Contest, open_contest, timed_execution
from agentmath.sandbox.figures import Tally, summarise
from agentmath.telemetry.machine import describe_machine, num_cores

_WARM_UPS = 2
_MEMORY_SAMPLES = 3
_MEMORY_SETTLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How much is measured."""

    parts: int = 3
    rounds_per_part: int = 70
    slow_every: int = 8
    """A row that takes long has its turn in every so many rounds."""
    lane_seconds: float = 0.5
    """For each row and part."""
    burst: int = 1000
    """Calls at once, one burst in each part."""
    settle_seconds: float = 0.01
    """Before each execution: time for the sandbox to make ready what the one before used up."""


FULL = Schedule()
"""About two minutes on two cores."""
QUICK = Schedule(parts=1, rounds_per_part=16, lane_seconds=0.25)
"""About fifteen seconds; its p90 and p99 are little more than the maximum."""


async def measure(schedule: Schedule = FULL) -> dict[str, Any]:
    """Measure everything this machine can; rows and ratios as in figures.summarise. Blocks the event loop meanwhile.

    A row that fails, or that this machine does not have, stands under left_out with the reason. Raises SandboxError
    when no sandbox can be opened.
    """
    load_before = os.getloadavg()[0]
    async with open_contest(num_cores()) as contest:
        burst_name = f"burst_{schedule.burst}"
        tallies = {name: Tally() for name in (*(contender.name for contender in contest.contenders), burst_name)}
        for contender in list(contest.contenders):
            await _guarded(contest, contender.name, _warm_up(contender))
        await _weigh(contest, tallies, settle_seconds=max(schedule.settle_seconds, _MEMORY_SETTLE_SECONDS))
        bursts: list[float] = []
        for part in range(schedule.parts):
            for number in range(part * schedule.rounds_per_part, (part + 1) * schedule.rounds_per_part):
                await _round(contest, tallies, number, schedule)
            await _rates(contest, tallies, schedule)
            if burst_name not in contest.left_out:
                await asyncio.sleep(schedule.settle_seconds)
                await _guarded(contest, burst_name, _burst(contest, tallies[burst_name], bursts, schedule.burst))
        kept = {name: tally for name, tally in tallies.items() if name not in contest.left_out}
        meanings = {contender.name: contender.meaning for contender in contest.contenders}
        meanings[burst_name] = f"{schedule.burst} calls of parked_print at once: from the first call to each answer"
        about = {"load_average_before": load_before, "num_workers": contest.num_lanes}
        about["layers"] = [layer.name for layer in contest.bare.report() if layer.in_force]
        return {
            **summarise(kept, bursts=bursts, num_lanes=contest.num_lanes),
            "left_out": contest.left_out,
            "meanings": {name: meanings[name] for name in kept},
            "machine": machine() | about,
            "schedule": dataclasses.asdict(schedule),
        }


def turns(contenders: Sequence[Contender], number: int, *, slow_every: int) -> list[Contender]:
    """Whose turn it is in a round, beginning with another one each time, as each may disturb its successor."""
    due = [contender for contender in contenders if not contender.is_slow or number % slow_every == 0]
    shift = number % max(len(due), 1)
    return due[shift:] + due[:shift]


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores, memory, system, versions, load."""
    versions = {name: _version(name) for name in ("numpy", "sympy")}
    return describe_machine() | {name: version for name, version in versions.items() if version}


async def _warm_up(contender: Contender) -> None:
    for _ in range(_WARM_UPS):
        await contender.once()


async def _round(contest: Contest, tallies: Mapping[str, Tally], number: int, schedule: Schedule) -> None:
    for contender in turns(contest.contenders, number, slow_every=schedule.slow_every):
        await asyncio.sleep(schedule.settle_seconds)
        await _guarded(contest, contender.name, _once(contender, tallies[contender.name]))


async def _rates(contest: Contest, tallies: Mapping[str, Tally], schedule: Schedule) -> None:
    for contender in list(contest.contenders):
        if contender.lane is not None:
            await asyncio.sleep(schedule.settle_seconds)
            tally = tallies[contender.name]
            await _guarded(contest, contender.name, _rate(contender, tally, contest.num_lanes, schedule.lane_seconds))


async def _once(contender: Contender, tally: Tally) -> None:
    tally.alone.append(await contender.once())


async def _rate(contender: Contender, tally: Tally, num_lanes: int, lane_seconds: float) -> None:
    start = time.perf_counter()
    deadline = start + lane_seconds

    async def drive(number: int) -> CannotMeasureError | None:
        assert contender.lane is not None
        now = time.perf_counter()
        while now < deadline:
            try:
                await contender.lane(number)
            except CannotMeasureError as error:
                return error
            tally.beside.append(-now + (now := time.perf_counter()))
        return None

    errors = await asyncio.gather(*(drive(number) for number in range(num_lanes)))
    tally.lane_seconds += time.perf_counter() - start
    for error in filter(None, errors):
        raise error


async def _burst(contest: Contest, tally: Tally, bursts: list[float], size: int) -> None:
    start = time.perf_counter()

    async def one() -> Timing | CannotMeasureError:
        try:
            timing = await timed_execution(contest.bare, PRINT, PRINTED)
        except CannotMeasureError as error:
            return error
        return timing._replace(seconds=time.perf_counter() - start)

    answers = await asyncio.gather(*(one() for _ in range(size)))
    bursts.append(time.perf_counter() - start)
    for answer in answers:
        if isinstance(answer, CannotMeasureError):
            raise answer
        tally.alone.append(answer)


async def _weigh(contest: Contest, tallies: Mapping[str, Tally], *, settle_seconds: float) -> None:
    """Private memory of children that stand ready, known by the one that a call uses up, and of an idle session."""
    settle = partial(asyncio.sleep, settle_seconds)
    for name, sandbox in (("parked_print", contest.bare), ("parked_sympy", contest.loaded)):
        if sandbox is not None and name in tallies:
            use = partial(sandbox.execute, PRINT)
            sizes = [await footprint.vanishing_mib(use, settle) for _ in range(_MEMORY_SAMPLES)]
            tallies[name].private_mib = footprint.median_known(sizes)
    sizes = []
    for _ in range(_MEMORY_SAMPLES):
        session = await contest.bare.open_session()
        await contest.bare.execute("x = 0", session=session)
        sizes.append(await footprint.vanishing_mib(partial(contest.bare.close_session, session), settle))
    if "session_block" in tallies:
        tallies["session_block"].private_mib = footprint.median_known(sizes)


async def _guarded(contest: Contest, name: str, work: Awaitable[None]) -> None:
    """Do work; a row that cannot be measured is left out from here on, and the others go on."""
    try:
        await work
    except CannotMeasureError as error:
        contest.left_out[name] = str(error)
        contest.contenders = [contender for contender in contest.contenders if contender.name != name]


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
