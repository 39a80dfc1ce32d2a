"""Is the simulator right? The same rollouts on a real engine and simulated, and how long both say that they take.

    python bench/simulator_calibration.py --json [--steps N] [--seed N] [--repeats N]

One embedded engine decodes a small model with random weights; no end token is honoured, so that lengths are those of
the plan: lognormal, with a long tail. Tools are sleeps. The scheduler is the real one. In turn the engine's constants
are measured and rollouts run in lockstep, batch, segments and quota, several times; medians count. Then each mode is
simulated with the constants and the same plan: `error` is predicted over measured seconds - 1.

The clock stands still while this thread waits for a processor that others use (the kernel counts it in schedstat), and
tools sleep by the same clock: on a busy machine that is the time which a quiet one would have taken. `waited` is the
share of the wall clock that was left out.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch
from common import emit, record

from agentmath import _C
from agentmath.config.engine import EngineSection
from agentmath.config.model import ModelSection
from agentmath.config.scenario import Scenario
from agentmath.config.scenario_file import load_scenario
from agentmath.core.types import Sampling
from agentmath.engines.transformers_engine import TransformersEngine
from agentmath.orchestration.engines import build_engine
from agentmath.orchestration.simulation import run_once, settings_of
from agentmath.training.policy import load_policy

MODES = ("lockstep", "batch", "segments", "quota")
CONTEXT = 1536
OVERRIDES = (
    "--workload.groups_per_step=4",
    "--workload.group_size=4",
    "--workload.prompt_tokens=32",
    "--workload.mean_sampled_tokens=120",
    "--workload.max_sampled_tokens=600",
    "--tools.tokens_per_call=40",
    "--tools.max_calls=30",
    "--tools.median_seconds=0.1",
    "--tools.seconds_sigma=0.8",
    "--tools.timeout_share=0",
    "--tools.output_tokens=8",
    "--engines.count=1",
    "--engines.kv_tokens=50000",
    "--engines.report_tokens=1000000",
    "--trainer.train_seconds=0",
    "--trainer.update_seconds=0",
    "--scheduling.segment_sampled_tokens=150",
    "--scheduling.segment_fill=0",
    "--scheduling.over_submission=1.5",
    "--scheduling.baseline=batch",
    "--run.warmup_steps=0",
)
WAITED = Path("/proc/thread-self/schedstat")
rollout = _C.rollout
Point = tuple[int, int]


def clock() -> float:
    """Seconds, without those in which this thread was ready and had no processor."""
    return time.perf_counter() - waited()


def waited() -> float:
    """Seconds in which this thread was ready and had no processor; 0 where the kernel does not count them."""
    try:
        return int(WAITED.read_text("ascii").split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


async def sleep(seconds: float) -> None:
    """Until that much time has gone by on the clock."""
    due = clock() + seconds
    while (left := due - clock()) > 0:
        await asyncio.sleep(left)


@dataclass
class Trajectory:
    """One that has not ended."""

    id: int
    turns: list[tuple[int, float]]
    ids: list[int]
    turn: int = 0
    turn_tokens: int = 0
    sampled: int = 0


@dataclass
class Rollouts:
    """The real engine and the real scheduler, with planned lengths and tools that sleep."""

    engine: TransformersEngine
    settings: dict[str, Any]
    seed: int
    live: dict[int, Trajectory] = field(default_factory=dict)
    num_groups: int = 0
    version: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def new_group(self) -> list[Trajectory]:
        """Trajectories of the next group, numbered as the simulator numbers them."""
        self.num_groups += 1
        workload, made = self.settings["workload"], []
        for sample in range(workload["group_size"]):
            number = (self.num_groups - 1) * workload["group_size"] + sample
            turns = _C.simulator.plan(workload, self.seed, number)
            prompt = [10 + self.num_groups % 200] * workload["prompt_tokens"]
            made.append(Trajectory(id=self.num_groups << 16 | sample, turns=turns, ids=prompt))
        self.live |= {t.id: t for t in made}
        return made

    async def generate(self, t: Trajectory, limit: int) -> int:
        """Sample until the turn ends or the limit is reached; the number of tokens."""
        sampling = Sampling(max_new_tokens=min(limit, t.turns[t.turn][0] - t.turn_tokens), seed=t.id)
        completion = await self.engine.generate(t.ids, sampling, session=t.id)
        t.ids += completion.ids.tolist()
        t.turn_tokens += len(completion.ids)
        t.sampled += len(completion.ids)
        return len(completion.ids)

    async def call(self, t: Trajectory) -> None:
        """The tool behind the turn that ended."""
        seconds = t.turns[t.turn][1]
        t.turn, t.turn_tokens = t.turn + 1, 0
        await sleep(seconds)
        t.ids += [5] * self.settings["workload"]["tool_output_tokens"]

    async def update(self) -> None:
        """New weights: the engine drops its caches."""
        self.version += 1
        await self.engine.update_weights(self.version, None)

    async def lockstep(self) -> None:
        """One step: everybody waits for everybody after each turn."""
        groups = range(self.settings["scheduler"]["groups_per_step"])
        going = [t for _ in groups for t in self.new_group()]
        while going:
            await asyncio.gather(*(self.generate(t, CONTEXT) for t in going))
            for t in [t for t in going if t.turn + 1 == len(t.turns)]:
                self.engine.close_session(t.id)
            going = [t for t in going if t.turn + 1 < len(t.turns)]
            await asyncio.gather(*(self.call(t) for t in going))
        await self.update()

    async def step(self, scheduler: _C.rollout.Scheduler) -> None:
        """One step of the real scheduler: csrc/rollout/scheduler.h."""
        scheduler.begin_round(self.settings["scheduler"]["groups_per_step"], time.monotonic_ns())
        tasks: set[asyncio.Task[None]] = set()
        while True:
            self.news.clear()
            todo = scheduler.decide(time.monotonic_ns())
            for _ in range(todo.num_groups_wanted):
                made = self.new_group()
                scheduler.submit(self.num_groups, len(made[0].ids), len(made), time.monotonic_ns())
            tasks |= {asyncio.create_task(self.follow(scheduler, self.live[g.id], g.verdict)) for g in todo.grants}
            for trajectory in todo.interrupts:
                await self.engine.abort(trajectory)
            if todo.round_is_over:
                break
            if not todo.num_groups_wanted:
                await asyncio.wait_for(self.news.wait(), 120)
        scheduler.take_groups()
        for trajectory in scheduler.interrupt(time.monotonic_ns()):
            await self.engine.abort(trajectory)
        while scheduler.stats().num_in_state[rollout.State.RUNNING.value]:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 120)
        await self.update()
        scheduler.set_version(self.version, time.monotonic_ns())

    async def follow(self, scheduler: _C.rollout.Scheduler, t: Trajectory, verdict: _C.rollout.Verdict) -> None:
        """One trajectory until it ends or waits to be granted again."""
        while verdict.action in (rollout.Action.GENERATE, rollout.Action.CALL):
            if verdict.action == rollout.Action.CALL:
                await self.call(t)
                verdict = scheduler.answered(verdict.ticket, len(t.ids), t.sampled, time.monotonic_ns())
                continue
            if t.turn_tokens == t.turns[t.turn][0] and t.turn + 1 < len(t.turns):
                t.turn, t.turn_tokens = t.turn + 1, 0
            version, limit = self.version, verdict.max_new_tokens
            num_new = await self.generate(t, limit)
            ended, is_last = t.turn_tokens == t.turns[t.turn][0], t.turn + 1 == len(t.turns)
            outcome = rollout.Outcome.ABORTED if num_new < limit else rollout.Outcome.LENGTH
            if ended:
                outcome = rollout.Outcome.FINISHED if is_last else rollout.Outcome.CALL
            versions = (version, version) if num_new else (-1, -1)
            now = time.monotonic_ns()
            verdict = scheduler.generated(verdict.ticket, len(t.ids), t.sampled, num_new, *versions, outcome, now)
        if verdict.action == rollout.Action.END:
            self.engine.close_session(t.id)
            self.live.pop(t.id, None)
        self.news.set()


def scheduler_of(settings: dict[str, Any]) -> _C.rollout.Scheduler:
    """The real scheduler with the settings that the simulated one has."""
    given, made, budgets = dict(settings["scheduler"]), rollout.Settings(), rollout.Budgets()
    for key in ("max_sampled_tokens", "max_context_tokens", "max_tool_calls", "max_segments"):
        setattr(budgets, key, given.pop(key))
    made.mode = rollout.Mode[given.pop("mode").upper()]
    made.overdue = rollout.Overdue[given.pop("overdue").upper()]
    made.stages = [budgets]
    for key, value in given.items():
        setattr(made, key, value)
    return rollout.Scheduler(made)


def measured_seconds(
    engine: TransformersEngine, settings: dict[str, Any], seed: int, steps: int
) -> tuple[float, float]:
    """Seconds of so many steps on the real engine, by the clock and by the wall."""
    rollouts = Rollouts(engine=engine, settings=settings, seed=seed, version=engine.version)

    async def run() -> tuple[float, float]:
        scheduler = scheduler_of(settings)
        scheduler.set_version(rollouts.version, time.monotonic_ns())
        begun, wall = clock(), time.perf_counter()
        for _ in range(steps):
            await (rollouts.lockstep() if settings["is_lockstep"] else rollouts.step(scheduler))
        return clock() - begun, time.perf_counter() - wall

    return asyncio.run(run())


def spans(engine: TransformersEngine) -> dict[Point, float]:
    """Seconds a decode step by (batch, context), and of a prefill of 4 x 384 tokens at (0, 0)."""
    found: dict[Point, float] = {}
    for batch in (1, 3, 6, 12):
        for context in (32, 400):
            taken = span(engine, batch, context, 32) - span(engine, batch, context, 4)
            found[batch, context] = taken / 28
    found[0, 0] = span(engine, 4, 448, 1) - span(engine, 4, 64, 1)
    return found


def fit(rounds: Sequence[dict[Point, float]]) -> dict[str, float]:
    """The engine's constants: least squares of relative errors over the median of each point."""
    best = {point: statistics.median(r[point] for r in rounds) for point in rounds[0]}
    prefill = best.pop((0, 0)) / (4 * 384)
    rows = np.array([[1.0, batch, batch * (context + 18.0)] for batch, context in best])
    seconds = np.array([*best.values()])
    solved = np.linalg.lstsq(rows / seconds[:, None], np.ones(len(rows)), rcond=None)[0]
    names = ("step_seconds", "step_seconds_per_sequence", "step_seconds_per_context_token")
    found = {name: max(float(value), 1e-12) for name, value in zip(names, solved, strict=True)}
    return {**found, "prefill_seconds_per_token": max(prefill, 0.0)}


def span(engine: TransformersEngine, batch: int, context: int, new: int) -> float:
    """Seconds for a batch of new contexts, each with so many tokens to sample."""

    async def run() -> float:
        begun = clock()
        asked = [
            engine.generate([10 + i, *[20] * (context - 1)], Sampling(max_new_tokens=new), session=i)
            for i in range(batch)
        ]
        await asyncio.gather(*asked)
        taken = clock() - begun
        for i in range(batch):
            engine.close_session(i)
        return taken

    return asyncio.run(run())


def new_engine() -> TransformersEngine:
    """A model of random weights whose every completion is as long as it is asked for."""
    shape = ModelSection(
        hidden_size=256, num_layers=6, num_heads=4, num_key_value_heads=2, ffn_size=768, max_context_tokens=CONTEXT
    )
    policy = load_policy(shape, name="policy", seed=0, corpus=["What is 12 + 34? " * 4])
    policy.tokenizer.eos_ids = ()
    return build_engine(policy, EngineSection(max_rows=32, max_context_tokens=CONTEXT))


def compare(scenario: Scenario, engine: TransformersEngine, seed: int, repeats: int) -> dict[str, Any]:
    """Rows of measured and predicted seconds by mode, and the constants."""
    made = {mode: settings_of(scenario, mode, scenario.policies[0], seed) for mode in MODES}
    taken: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    points = [spans(engine)]
    for _ in range(repeats):
        for mode in MODES:
            taken[mode].append(measured_seconds(engine, made[mode], seed, scenario.run.steps))
        points.append(spans(engine))
    constants = fit(points)
    rows: list[dict[str, Any]] = []
    for mode in MODES:
        settings = {**made[mode], "engine": {**made[mode]["engine"], **constants}}
        predicted = run_once(settings, _C.simulator.Stop())["seconds"]
        measured = statistics.median(seconds for seconds, _ in taken[mode])
        rows.append(
            {
                "mode": mode,
                "measured_seconds": measured,
                "predicted_seconds": predicted,
                "error": predicted / measured - 1,
                "spread": (max(taken[mode])[0] - min(taken[mode])[0]) / measured,
                "waited": 1 - sum(seconds for seconds, _ in taken[mode]) / sum(wall for _, wall in taken[mode]),
            }
        )
    for row in rows:
        for kind in ("measured", "predicted"):
            row[f"factor_{kind}"] = rows[0][f"{kind}_seconds"] / row[f"{kind}_seconds"]
    return {"rows": rows, "constants": constants}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    scenario = load_scenario("quickstart", [*OVERRIDES, f"--run.steps={arguments.steps}"])
    body = compare(scenario, new_engine(), arguments.seed, arguments.repeats)
    emit(record("simulator_calibration", vars(arguments), body), as_json=arguments.json, lines=lines_of(body))


def lines_of(body: dict[str, Any]) -> list[str]:
    lines = [
        f"{r['mode']:9} measured {r['measured_seconds']:.2f} s, spread {r['spread']:.0%}, waited {r['waited']:.0%}; "
        f"predicted {r['predicted_seconds']:.2f} s, error {r['error']:+.1%}; {r['factor_measured']:.2f}x lockstep, "
        f"predicted {r['factor_predicted']:.2f}x"
        for r in body["rows"]
    ]
    return [*lines, ", ".join(f"{key} {value:.3g}" for key, value in body["constants"].items())]


if __name__ == "__main__":
    main()
