"""Routing policies on one replay: cache hits, evenness, decisions a second and memory; real routers beside ours.

    python bench/balancer.py [--trace session|cold|FILE] [--json] [--workers 4] [--limit 12031] [--speed 4]
                             [--systems agentmath vllm-router sglang-router] [--policies breakable agentmath ...]

session: 40 groups x 8 sessions x 8 growing turns, 64 in flight; the best possible hit ratio is 0.80. cold: prompts of
600 blocks that share nothing. FILE: a Mooncake or Azure trace, replayed in its own time divided by --speed.

Ours runs in this process over modelled workers, in virtual time, through the Python face: p99_us is of acquire,
decisions_per_second of acquire and release together, per second of processor time. hit and most_over_mean (requests)
are counted by the workers, not by the balancer. The routers (extra "bench", on the session replay) forward each request
over loopback to stub workers that count the same: their decisions_per_second are requests a second and bound by this
client, their p99_us is what a request took above its worker's time. A system that is not installed is left out, and
says so.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from balancer_replays import (
    NUM_ACTIVE,
    PREFILL_SECONDS_PER_TOKEN,
    Replay,
    Request,
    Worker,
    cold_replay,
    read_trace,
    session_replay,
)
from balancer_routers import ROUTERS, missing, run_router
from common import emit, record

from agentmath.rollout.balancer import Balancer, BalancerSettings, Placement

POLICIES = ("breakable", "agentmath", "round_robin", "least", "power_of_two", "consistent_hash", "radix", "score")
COLUMNS = ("system", "policy", "hit", "most_over_mean", "decisions_per_second", "p99_us", "bytes_per_block")


def arrivals(replay: Replay) -> Iterator[tuple[float, int, Request, list[Request]]]:
    """(when, order, request, the turns that follow it) of what starts on its own."""
    if replay.sessions:
        for number, turns in enumerate(replay.sessions[:NUM_ACTIVE]):
            yield 0.0, number, turns[0], list(turns[1:])
    else:
        for number, request in enumerate(replay.requests):
            yield request.arrival, number, request, []


class Ours:
    """Our balancer; contexts are made before the replay starts."""

    def __init__(self, replay: Replay, policy: str, num_workers: int) -> None:
        settings = BalancerSettings(
            policy=policy,  # type: ignore[arg-type]
            block_tokens=replay.block_tokens,
            index_bytes=46 * max(replay.num_distinct_blocks, 1000),
            max_sessions=max(len({request.session for request in replay.requests}), 16),
        )
        self.balancer = Balancer(settings)
        for _ in range(num_workers):
            self.balancer.add_engine()
        self.is_by_name = replay.block_tokens != 16
        self.contexts = {id(r): self.context(r) for r in replay.requests}

    def context(self, request: Request) -> np.ndarray[Any, Any]:
        names = np.array(request.blocks, np.uint64)
        return names if self.is_by_name else np.repeat(names.astype(np.int32), 16)

    def acquire(self, request: Request) -> Placement:
        if not request.blocks:
            return self.balancer.acquire_length(request.num_tokens, session=request.session)
        context = self.contexts[id(request)]
        if self.is_by_name:
            return self.balancer.acquire_blocks(context, request.num_tokens, session=request.session)
        return self.balancer.acquire(context, session=request.session)


def decisions_per_second(ours: Ours, calls: list[Request | int]) -> float:
    """Of the same calls again, on a fresh balancer that decides alike, with nothing between them; per second of this
    thread, so that others on the machine take nothing from it."""
    begin = time.thread_time_ns()
    for what in calls:
        if isinstance(what, int):
            ours.balancer.release(what)
        else:
            ours.acquire(what)
    return len(calls) / 2 * 1e9 / (time.thread_time_ns() - begin)


def run_ours(replay: Replay, policy: str, num_workers: int) -> dict[str, Any]:
    """The replay in virtual time: a worker serves any number of requests at once."""
    ours, calls, acquire_ns = Ours(replay, policy, num_workers), [], []
    workers = [Worker(replay.cache_blocks) for _ in range(num_workers)]
    waiting = list(replay.sessions[NUM_ACTIVE:])[::-1]
    events: list[tuple[float, int, Request | int, list[Request]]] = list(arrivals(replay))
    heapq.heapify(events)
    order = len(events)
    while events:
        now, _, what, rest = heapq.heappop(events)
        if isinstance(what, int):
            calls.append(what)
            ours.balancer.release(what)
            if not rest and waiting:
                rest = list(waiting.pop())
            if not rest:
                continue
            what, rest = rest[0], rest[1:]
        calls.append(what)
        begin = time.perf_counter_ns()
        place = ours.acquire(what)
        acquire_ns.append(time.perf_counter_ns() - begin)
        missed = len(what.blocks) - workers[place.engine].serve(what.blocks)
        seconds = what.seconds + missed * replay.block_tokens * PREFILL_SECONDS_PER_TOKEN
        order += 1
        heapq.heappush(events, (now + seconds, order, place.lease, rest))
    stats = ours.balancer.stats()
    ours.balancer._core.verify()
    assert all(ours.balancer.look(k).weight_units == 0 for k in range(num_workers)), "leaked weight"
    return row("agentmath", policy, workers) | {
        "decisions_per_second": decisions_per_second(Ours(replay, policy, num_workers), calls),
        "p99_us": float(np.percentile(acquire_ns, 99)) / 1000,
        "bytes_per_block": stats.num_index_bytes / stats.num_blocks if stats.num_blocks else None,
        "bytes_per_session": stats.num_session_bytes / stats.num_sessions if stats.num_sessions else None,
        "expected_hit": stats.num_hit_tokens / stats.num_tokens,
        "moved": stats.num_moved,
    }


def row(system: str, policy: str, workers: list[Worker]) -> dict[str, Any]:
    """What the workers saw; hit is absent where the replay has no blocks."""
    requests = [worker.num_requests for worker in workers]
    blocks = sum(worker.num_blocks for worker in workers)
    return {
        "system": system,
        "policy": policy,
        "hit": sum(worker.num_hits for worker in workers) / blocks if blocks else None,
        "most_over_mean": max(requests) / statistics.fmean(requests),
    }


def cell(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.3f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trace", default="session")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--limit", type=int, default=1_000_000, help="requests of a trace")
    parser.add_argument("--speed", type=float, default=1.0, help="of a trace, times its own")
    parser.add_argument("--systems", nargs="+", default=["agentmath", *ROUTERS], choices=["agentmath", *ROUTERS])
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES, help="ours")
    return parser.parse_args()


def main() -> None:
    a = parse()
    if a.trace in ("session", "cold"):
        replay = session_replay() if a.trace == "session" else cold_replay()
    else:
        replay = read_trace(Path(a.trace), limit=a.limit, speed=a.speed)
    rows, left_out = [], {}
    if "agentmath" in a.systems:
        run_ours(replay, a.policies[0], a.workers)  # warms up
        rows += [run_ours(replay, policy, a.workers) for policy in a.policies]
    for system in ROUTERS:
        if system not in a.systems:
            continue
        reason = missing(system) if replay.sessions else "it is run on the session replay only"
        if reason:
            left_out[system] = reason
            continue
        for policy in ROUTERS[system]:
            measured = run_router(replay, system, policy, a.workers)
            rows.append(row(system, policy, measured.pop("workers")) | measured)
    result = record("balancer", vars(a), {"rows": rows, "left_out": left_out})
    heading = f"{replay.name}: {len(replay.requests)} requests, {a.workers} workers"
    lines = [heading, " ".join(f"{column:>15}" for column in COLUMNS)]
    lines += [" ".join(f"{cell(r[column]):>15}" for column in COLUMNS) for r in rows]
    lines += [f"left out: {system} ({reason})" for system, reason in left_out.items()]
    emit(result, as_json=a.json, lines=lines)


if __name__ == "__main__":
    main()
