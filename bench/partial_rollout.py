"""The ladder of rollout modes, simulated: how much each step gains, how far from the limit it ends.

    python bench/partial_rollout.py --json [--seeds N] [--scenario NAME]

Discrete events over the production scheduler and balancer, engines and tools modelled as the scenario says
(`agentmath simulate agentmath_8b --show`): nothing here is a measurement of hardware. Factors are over lockstep with
the published balancer on the same engines and seeds. Rows with a lag above 0 train on older tokens and are not like
for like with the others.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from common import emit, record

from agentmath.config.scenario_file import load_scenario
from agentmath.orchestration.simulation import Row, over, simulate

PER_ENGINE = (8, 16, 32)
PER_STEP = 512
Rows = list[dict[str, Any]]


def ladder(scenario: str, seeds: int) -> tuple[Rows, int]:
    """One row for each number of trajectories an engine, mode and policy; and how many events that took.

    In "segments" so many trajectories work at once as in a batch, and fewer end in a step; in "segments_filled" more
    work at once, so that a step trains on about as many as a batch.
    """
    rows: Rows = []
    events = 0
    for per_engine in PER_ENGINE:
        counts = ["--engines.count", str(PER_STEP // per_engine), "--run.num_seeds", str(seeds)]
        alone = ["--scheduling.modes", '["segments"]', "--scheduling.baseline", "segments/published"]
        plain = simulate(load_scenario(scenario, [*counts, "--scheduling.segment_fill", "1.0"]))
        filled = simulate(load_scenario(scenario, [*counts, *alone]))
        base = next(r for r in plain.rows if (r.mode, r.policy) == ("lockstep", "published"))
        rows += [as_row(row.mode, row, base, per_engine) for row in plain.rows]
        rows += [as_row("segments_filled", row, base, per_engine) for row in filled.rows]
        events += plain.num_events + filled.num_events
    return rows, events


def as_row(mode: str, row: Row, base: Row, per_engine: int) -> dict[str, Any]:
    factor, low, high = over(row.rates, base.rates)
    return {
        "mode": mode,
        "balancer": row.policy,
        "trajectories_per_engine": per_engine,
        "trajectories_per_second": row.trajectories_per_second,
        "factor": factor,
        "factor_ci": [low, high] if math.isfinite(high) else None,
        "of_limit": row.of_limit,
        "hit": row.hit,
        "max_lag": row.max_lag,
        "on_policy": row.on_policy,
        "idle_share": row.idle_share,
        "trained_per_step": row.trained_per_step,
    }


def goals(rows: Rows) -> dict[str, dict[str, Any]]:
    """The goals of docs/simulate.md: what is wanted, what was found in the worst case, whether that is enough."""

    def get(mode: str, balancer: str, per_engine: int, key: str) -> float:
        wanted = (mode, balancer, per_engine)
        return next(r[key] for r in rows if (r["mode"], r["balancer"], r["trajectories_per_engine"]) == wanted)

    def gain(mode: str, per_engine: int) -> float:
        return get(mode, "ours", per_engine, "factor") / get(mode, "published", per_engine, "factor") - 1

    def partial(mode: str, per_engine: int) -> float:
        return get(mode, "ours", per_engine, "factor") / get("batch", "ours", per_engine, "factor")

    modes = ("batch", "segments", "segments_filled", "quota", "async")
    flow = {n: max(get("quota", "ours", n, "of_limit"), get("async", "ours", n, "of_limit")) for n in PER_ENGINE}
    found = {
        "batch_of_limit_at_16": (0.90, get("batch", "ours", 16, "of_limit")),
        "batch_of_limit_at_8": (0.95, get("batch", "ours", 8, "of_limit")),
        "flow_of_limit_everywhere": (0.85, min(flow.values())),
        "batch_over_published": (0.14, min(gain("batch", n) for n in PER_ENGINE)),
        "segments_over_published": (0.23, min(gain("segments", n) for n in PER_ENGINE)),
        "never_below_published": (-0.01, min(gain(m, n) for m in modes for n in PER_ENGINE)),
        "partial_rollout_alone_at_8_and_16": (2.2, min(partial("segments", n) for n in (8, 16))),
        "partial_rollout_filled_at_8_and_16": (2.2, min(partial("segments_filled", n) for n in (8, 16))),
        "whole_stack_at_8_and_16": (4.5, min(get("segments", "ours", n, "factor") for n in (8, 16))),
    }
    made = {name: {"goal": goal, "found": value, "met": value >= goal} for name, (goal, value) in found.items()}
    # A batch that ends at its limit is so much faster than the published one, and no more.
    made["batch_over_published"]["possible"] = min(1 / get("batch", "published", n, "of_limit") - 1 for n in PER_ENGINE)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--scenario", default="agentmath_8b", help="512 trajectories a step, policies published and ours"
    )
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    begun = time.perf_counter()
    rows, events = ladder(arguments.scenario, arguments.seeds)
    seconds = time.perf_counter() - begun
    body = {"rows": rows, "goals": goals(rows), "events": events, "events_per_second": events / seconds}
    lines = [
        f"{r['trajectories_per_engine']:3} {r['mode']:15} {r['balancer']:9} {r['trajectories_per_second']:.3f}/s "
        f"{r['factor']:6.2f}x of limit {r['of_limit']:.3f} hit {r['hit']:.2f} idle {r['idle_share']:.0%} "
        f"lag {r['max_lag']}{'' if r['on_policy'] else ' (off-policy)'}"
        for r in rows
    ]
    lines += [f"{name}: {g['found']:.3f}, goal {g['goal']}, {g['met']}" for name, g in body["goals"].items()]
    lines.append(f"{events:,} events in {seconds:.0f} s")
    emit(record("partial_rollout", vars(arguments), body), as_json=arguments.json, lines=lines)


if __name__ == "__main__":
    main()
