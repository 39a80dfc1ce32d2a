"""What the rollout scheduler costs: calls a second, the event loop's share, and how long it holds the interpreter.

    python bench/scheduler.py --json [--quick]

Rows of "calls": one method at `live` trajectories, called from Python: microseconds of this thread's processor time a
call (median, 99th percentile, largest), and calls a second. The largest bounds how long the interpreter is held;
methods that give it up while they work are marked.

Rows of "events": `streams` episodes that each wait for a completion, report it and ask again, completed in batches of
all streams as an engine does. us_per_event is the loop's time for one of them, us_bare the same without the scheduler
(a future that is set and awaited). "thread": completions are reported by another thread, and the loop hears of all of
them by one wake-up through the scheduler's descriptor.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from common import emit, record

from agentmath._C import rollout

GROUP_SIZE = 8
GRANTS = 256
UNLOCKED = ("begin_round", "take_groups", "interrupt", "snapshot", "restore", "dump")
"""Methods that give up the interpreter's lock while they work."""


def settings(num_groups: int) -> rollout.Settings:
    made, budgets = rollout.Settings(), rollout.Budgets()
    budgets.max_sampled_tokens = budgets.max_context_tokens = budgets.max_tool_calls = 10**9
    made.mode, made.stages = rollout.Mode.QUOTA, [budgets]
    made.groups_per_step, made.over_submission, made.max_lag = num_groups, 1.0, 1
    return made


class Timer:
    """Processor time of single calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        begin = time.thread_time_ns()
        yield
        self.seconds.setdefault(name, []).append((time.thread_time_ns() - begin) * 1e-9)


def grant_all(core: rollout.Scheduler, timer: Timer) -> list[int]:
    """Tickets of all that may begin, by decisions of at most GRANTS grants each."""
    tickets: list[int] = []
    while True:
        with timer.of(f"decide, {GRANTS} grants"):
            grants = core.decide(0, GRANTS).grants
        if not grants:
            return tickets
        tickets += [g.verdict.ticket for g in grants]


def measure_calls(live: int, rounds: int) -> list[dict[str, Any]]:
    """Each method at `live` trajectories in flight."""
    num_groups, timer = live // GROUP_SIZE, Timer()
    core, group = rollout.Scheduler(settings(num_groups)), 0
    for version in range(rounds):
        core.set_version(version, 0)
        with timer.of("begin_round"):
            core.begin_round(num_groups, 0)
        for _ in range(num_groups):
            with timer.of("submit"):
                core.submit(group, 100, GROUP_SIZE, 0)
            group += 1
        tickets = grant_all(core, timer)
        for outcome, count in ((rollout.Outcome.CONTINUE, live), (rollout.Outcome.CALL, live)):
            for index in range(count):
                ticket = tickets[index]
                with timer.of("generated"):
                    verdict = core.generated(ticket, 150, 50, 50, version, version, outcome, 0)
                tickets[index] = verdict.ticket
        for index in range(live):
            with timer.of("answered"):
                verdict = core.answered(tickets[index], 160, 50, 0)
            tickets[index] = verdict.ticket
        measure_walks(core, timer, settings(num_groups))
        with timer.of("interrupt"):
            core.interrupt(0)
        for ticket in tickets:
            with timer.of("generated, the end"):
                core.generated(ticket, 200, 90, 40, version, version, rollout.Outcome.FINISHED, 0)
            with timer.of("decide, nothing new"):
                core.decide(0, GRANTS)
        with timer.of("take_groups"):
            assert len(core.take_groups()) == num_groups
    return [row(name, live, seconds) for name, seconds in timer.seconds.items()]


def measure_walks(core: rollout.Scheduler, timer: Timer, same: rollout.Settings) -> None:
    """What walks over all trajectories."""
    with timer.of("stats"):
        core.stats()
    with timer.of("snapshot"):
        data = core.snapshot()
    other = rollout.Scheduler(same)
    with timer.of("restore"):
        other.restore(data)
    with timer.of("dump"):
        core.dump(0)


def row(name: str, live: int, seconds: list[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    return {
        "method": name,
        "live": live,
        "calls": len(ordered),
        "median_us": statistics.median(ordered) * 1e6,
        "p99_us": ordered[math.ceil(0.99 * len(ordered)) - 1] * 1e6,
        "max_us": ordered[-1] * 1e6,
        "per_second": len(ordered) / sum(ordered) if sum(ordered) else 0.0,
        "holds_interpreter": name not in UNLOCKED,
    }


async def run_streams(streams: int, events: int, core: rollout.Scheduler | None, tickets: list[int]) -> float:
    """Seconds for each stream to be completed events times."""
    loop, waiting = asyncio.get_running_loop(), [None] * streams
    futures: list[Any] = waiting

    async def stream(index: int) -> None:
        ticket = tickets[index]
        for turn in range(events):
            futures[index] = loop.create_future()
            await futures[index]
            if core is not None:
                now = time.monotonic_ns()
                verdict = core.generated(ticket, turn, turn, 1, 0, 0, rollout.Outcome.CONTINUE, now)
                ticket = verdict.ticket
        tickets[index] = ticket

    tasks = [loop.create_task(stream(i)) for i in range(streams)]
    await asyncio.sleep(0)
    begin = time.perf_counter()
    for _ in range(events):
        for future in list(futures):
            future.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    seconds = time.perf_counter() - begin
    await asyncio.gather(*tasks)
    return seconds


async def run_thread(streams: int, events: int, core: rollout.Scheduler, tickets: list[int]) -> tuple[float, int]:
    """Processor seconds of the loop for events that another thread reports, and how often it was woken.

    Each stream loses its engine and is granted anew: an event with a decision in it.
    """
    loop, done, count, wakes = asyncio.get_running_loop(), asyncio.Event(), 0, 0
    inbox: list[int] = list(tickets)
    more = threading.Semaphore(0)

    def hear() -> None:
        nonlocal count, wakes
        wakes += 1
        while grants := core.decide(time.monotonic_ns(), GRANTS).grants:
            count += len(grants)
            inbox.extend(g.verdict.ticket for g in grants)
        more.release()
        if count >= streams * events:
            done.set()

    def work() -> None:
        reported = 0
        while reported < streams * events:
            for ticket in inbox[reported : min(len(inbox), streams * events)]:
                core.lost(ticket, 10, 0, False, time.monotonic_ns())
                reported += 1
            more.acquire()

    loop.add_reader(core.wakeup_fd(), hear)
    thread = threading.Thread(target=work)
    begin = time.thread_time()
    thread.start()
    await done.wait()
    seconds = time.thread_time() - begin
    loop.remove_reader(core.wakeup_fd())
    more.release(streams)
    thread.join()
    return seconds, wakes


def begun(streams: int, **changes: int) -> tuple[rollout.Scheduler, list[int]]:
    made = settings(streams // GROUP_SIZE)
    for name, value in changes.items():
        setattr(made, name, value)
    core = rollout.Scheduler(made)
    core.begin_round(streams // GROUP_SIZE, 0)
    for group in range(streams // GROUP_SIZE):
        core.submit(group, 10, GROUP_SIZE, 0)
    return core, grant_all(core, Timer())


def loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loops that this interpreter has."""
    found: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return found
    return {**found, "uvloop": uvloop.new_event_loop}


def measure_events(streams: int, events: int, repeats: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, factory in loops().items():
        bare, whole, threaded, wakes = [], [], [], 0
        for _ in range(repeats):
            with asyncio.Runner(loop_factory=factory) as runner:
                bare.append(runner.run(run_streams(streams, events, None, [0] * streams)))
                core, tickets = begun(streams)
                whole.append(runner.run(run_streams(streams, events, core, tickets)))
                core, tickets = begun(streams, max_retries=10**9)
                seconds, wakes = runner.run(run_thread(streams, events, core, tickets))
                threaded.append(seconds)
        per_event = 1e6 / (streams * events)
        rows.append(
            {
                "loop": name,
                "streams": streams,
                "us_per_event": statistics.median(whole) * per_event,
                "us_bare": statistics.median(bare) * per_event,
                "us_per_event_thread": statistics.median(threaded) * per_event,
                "events_per_wakeup_thread": streams * events / wakes,
            }
        )
    return rows


def lines(calls: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[str]:
    text = [f"{'method':24} {'live':>6} {'median us':>10} {'p99 us':>8} {'max us':>8} {'per second':>11}"]
    for one in calls:
        mark = "" if one["holds_interpreter"] else "  (gives up the interpreter)"
        figures = f"{one['median_us']:10.2f} {one['p99_us']:8.2f} {one['max_us']:8.1f} {one['per_second']:11,.0f}"
        text.append(f"{one['method']:24} {one['live']:6} {figures}{mark}")
    for one in events:
        text.append(
            f"{one['loop']}, {one['streams']} streams: {one['us_per_event']:.2f} us an event, {one['us_bare']:.2f} of "
            f"them without the scheduler; by thread {one['us_per_event_thread']:.2f} us, "
            f"{one['events_per_wakeup_thread']:.0f} events a wake-up"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    arguments = parser.parse_args()
    rounds, repeats = (2, 3) if arguments.quick else (10, 9)
    calls = [row for live in (512, 10_000) for row in measure_calls(live, rounds)]
    events = measure_events(512, 100, repeats)
    body = {"calls": calls, "events": events}
    emit(record("scheduler", vars(arguments), body), as_json=arguments.json, lines=lines(calls, events))


if __name__ == "__main__":
    main()
