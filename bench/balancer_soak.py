"""Memory of a balancer with caps, over many operations: what it holds must not grow.

    python bench/balancer_soak.py [--json] [--operations 100000000] [--blocks 100000] [--sessions 10000]

An operation is an acquire or its release: new sessions with prompts of their own, turns of known ones, an engine that
dies, comes back and gets new weights once in 100,000. Resident memory is read ten times on the way.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from common import emit, record

from agentmath.rollout.balancer import Balancer, BalancerSettings

ENGINES, CONTEXT, TURNS = 4, 640, 10
FAULT_EVERY = 100_000


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def soak(operations: int, blocks: int, sessions: int) -> list[dict[str, Any]]:
    """A row for each tenth of the operations."""
    balancer = Balancer(BalancerSettings(index_bytes=46 * blocks, max_sessions=sessions))
    for _ in range(ENGINES):
        balancer.add_engine()
    ids, rows, session, begin = np.zeros(CONTEXT, np.int32), [], 0, time.perf_counter()
    contexts = [ids[: CONTEXT // TURNS * (turn + 1)] for turn in range(TURNS)]
    for number in range(operations // 2):
        if number % TURNS == 0:
            session += 1
            ids[0], ids[1] = session & 0x7FFFFFFF, session >> 31
        place = balancer.acquire(contexts[number % TURNS], session=session)
        balancer.release(place.lease)
        if number % FAULT_EVERY == 0:
            engine = number // FAULT_EVERY % ENGINES
            balancer.engine_down(engine)
            balancer.set_version(engine, number)
            balancer.engine_up(engine)
        if (number + 1) % max(operations // 20, 1) == 0:
            stats = balancer.stats()
            rows.append(
                {
                    "operations": 2 * (number + 1),
                    "resident_mib": resident_mib(),
                    "blocks": stats.num_blocks,
                    "sessions": stats.num_sessions,
                    "leases": stats.num_leases,
                    "seconds": time.perf_counter() - begin,
                }
            )
    balancer._core.verify()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--operations", type=int, default=100_000_000)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=10_000)
    a = parser.parse_args()
    rows = soak(a.operations, a.blocks, a.sessions)
    lines = [" ".join(f"{name:>14}" for name in rows[0])]
    lines += [" ".join(f"{value:>14.1f}" for value in row.values()) for row in rows]
    emit(record("balancer_soak", vars(a), {"rows": rows}), as_json=a.json, lines=lines)


if __name__ == "__main__":
    main()
