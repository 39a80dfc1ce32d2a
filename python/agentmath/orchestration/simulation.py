"""A scenario, simulated: every mode with every policy, over several seeds, and what that comes to.

The events run in C++ over the scheduler and balancer that real rollouts use (csrc/rollout); here settings become
numbers, and results become rows.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agentmath import _C
from agentmath.config.scenario import PolicySection, Scenario
from agentmath.config.scenario_file import longest_context, policy_name
from agentmath.core.errors import ConfigError, TrainingError
from agentmath.evaluation.intervals import mean_interval

Result = dict[str, Any]
"""What _C.simulator.simulate gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mode with one policy: means over the seeds."""

    mode: str
    policy: str
    balancer: str
    trajectories_per_second: float
    rates: tuple[float, ...]
    """The same by seed."""
    factor: float
    """Trajectories a second over the baseline's; geometric mean over seeds, each over its own baseline."""
    factor_ci: tuple[float, float]
    """95 % interval of factor, by Student's t on its logarithm; infinite for one seed."""
    limit_per_second: float
    """Trajectories a second at the work-conservation bound; infinite where nothing was sampled after the warm-up."""
    of_limit: float
    """Share of that bound: 1 cannot be beaten by any scheduler or balancer."""
    hit: float
    """Share of the context of all requests that the engine still had in its cache."""
    idle_share: float
    """Share of engine time without prefill and decoding; of all engines."""
    idle_by_engine: tuple[float, ...]
    max_lag: int
    """Most versions between the oldest token of a group and the weights that trained on it."""
    on_policy: bool
    """Every token was sampled by the weights that trained on it. Factors of other rows are not like for like."""
    num_moves: float
    preemptions: float
    dropped: float
    """Trajectories that were submitted and not trained on."""
    trained_per_step: float
    """Trajectories that one training step took."""
    seconds_per_step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """All rows of a scenario, and for each row the result of the first seed, for pictures."""

    rows: list[Row]
    first: list[Result]
    num_events: int


def simulate(
    scenario: Scenario, *, with_timelines: bool = False, said: Callable[[str], None] | None = None
) -> Simulated:
    """Run all of it, seeds side by side; said is told which row is done. with_timelines: for the first seed, what
    engines did when. Raises ConfigError for what cannot be simulated, TrainingError when a simulation comes to a stop.
    """
    seeds = range(scenario.run.first_seed, scenario.run.first_seed + scenario.run.num_seeds)
    kinds = [(mode, policy) for mode in scenario.scheduling.modes for policy in scenario.policies]
    stop = _C.simulator.Stop()

    def once(mode: str, policy: PolicySection, seed: int) -> Result:
        return run_once(settings_of(scenario, mode, policy, seed), stop, with_timelines and seed == seeds[0])

    results: list[list[Result]] = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        started = [[pool.submit(once, mode, policy, seed) for seed in seeds] for mode, policy in kinds]
        try:
            for (mode, policy), futures in zip(kinds, started, strict=True):
                results.append([future.result() for future in futures])
                if said is not None:
                    said(f"{mode}/{policy_name(policy)}")
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    base = results[baseline_index(scenario, kinds)]
    rows = [make_row(mode, policy, found, base) for (mode, policy), found in zip(kinds, results, strict=True)]
    events = sum(result["num_events"] for found in results for result in found)
    return Simulated(rows=rows, first=[found[0] for found in results], num_events=events)


def run_once(settings: dict[str, Any], stop: _C.simulator.Stop, with_timeline: bool = False) -> Result:
    """One simulation. Equal settings give equal results, bit for bit."""
    try:
        return _C.simulator.simulate(settings, stop, with_timeline=with_timeline)
    except ValueError as error:
        raise ConfigError(f"this cannot be simulated: {error}") from error
    except RuntimeError as error:
        raise TrainingError(str(error)) from error


def settings_of(scenario: Scenario, mode: str, policy: PolicySection, seed: int) -> dict[str, Any]:
    """What the C++ side takes: units become its own, nothing is decided here."""
    run, trainer, engines = scenario.run, scenario.trainer, scenario.engines
    return {
        "workload": _workload(scenario),
        "engine": engines.model_dump(exclude={"count"}),
        "scheduler": _scheduler(scenario, mode, policy),
        "balancer": {
            "policy": policy.balancer,
            "base_tokens": policy.tokens_per_weight,
            "base_weight": policy.base_weight,
            "leave_factor": policy.break_factor,
            "kv_share": policy.kv_share or 1.0,
            "seed": seed,
        },
        "balancer_knows_kv": policy.kv_share > 0,
        "num_engines": engines.count,
        "is_lockstep": mode == "lockstep",
        "reroute_tokens": policy.reroute_tokens,
        "segment_fill": scenario.scheduling.segment_fill,
        "train_seconds": trainer.train_seconds,
        "update_seconds": trainer.update_seconds,
        "keeps_kv": trainer.keeps_kv,
        "interrupts_for_update": trainer.interrupts,
        "num_rounds": run.warmup_steps + run.steps,
        "num_warmup_rounds": run.warmup_steps,
        "seed": seed,
    }


def _workload(scenario: Scenario) -> dict[str, Any]:
    workload, tools = scenario.workload, scenario.tools
    return {
        "group_size": workload.group_size,
        "prompt_tokens": workload.prompt_tokens,
        "mean_tokens": workload.mean_sampled_tokens,
        "sigma": workload.length_sigma,
        "group_correlation": workload.group_correlation,
        "max_tokens": workload.max_sampled_tokens,
        "tokens_per_call": tools.tokens_per_call,
        "max_calls": tools.max_calls,
        "tool_output_tokens": tools.output_tokens,
        "tool_median_seconds": tools.median_seconds,
        "tool_sigma": tools.seconds_sigma,
        "tool_timeout_share": tools.timeout_share,
        "tool_timeout_seconds": tools.timeout_seconds,
    }


def _scheduler(scenario: Scenario, mode: str, policy: PolicySection) -> dict[str, Any]:
    scheduling, workload, engines = scenario.scheduling, scenario.workload, scenario.engines
    is_segments = mode == "segments"
    return {
        "mode": "batch" if mode == "lockstep" else mode,
        "groups_per_step": workload.groups_per_step,
        "group_size": workload.group_size,
        "segment_sampled_tokens": scheduling.segment_sampled_tokens if is_segments else 0,
        "segment_tool_calls": scheduling.segment_tool_calls if is_segments else 0,
        "over_submission": scheduling.over_submission,
        "max_in_flight": scheduling.max_in_flight or workload.groups_per_step * workload.group_size,
        "max_lag": scheduling.max_lag,
        "overdue": scheduling.overdue,
        "kv_budget_tokens": math.floor(policy.kv_share * engines.kv_tokens * engines.count),
        "max_sampled_tokens": workload.max_sampled_tokens,
        "max_context_tokens": longest_context(scenario),
        "max_tool_calls": scenario.tools.max_calls,
        "max_segments": scheduling.max_segments,
    }


def baseline_index(scenario: Scenario, kinds: Sequence[tuple[str, PolicySection]]) -> int:
    """Place of scheduling.baseline among the kinds."""
    mode, _, name = scenario.scheduling.baseline.partition("/")
    return next(i for i, (m, policy) in enumerate(kinds) if m == mode and name in ("", policy_name(policy)))


def make_row(mode: str, policy: PolicySection, results: Sequence[Result], base: Sequence[Result]) -> Row:
    """What the seeds of one kind come to; base: the baseline's results of the same seeds."""
    rates = tuple(map(speed, results))
    factor, low, high = over(rates, [*map(speed, base)])
    rate = statistics.fmean(rates)
    of_limit = statistics.fmean(r["bound_seconds"] / r["seconds"] for r in results)
    max_lag = max(r["max_lag"] for r in results)

    def mean(key: str) -> float:
        return statistics.fmean(r[key] for r in results)

    idle = [statistics.fmean(shares) for shares in zip(*(r["idle_share"] for r in results), strict=True)]
    return Row(
        mode=mode,
        policy=policy_name(policy),
        balancer=policy.balancer,
        trajectories_per_second=rate,
        rates=rates,
        factor=factor,
        factor_ci=(low, high),
        limit_per_second=rate / of_limit if of_limit > 0 else math.inf,
        of_limit=of_limit,
        hit=1 - mean("missed_tokens") / max(mean("wanted_tokens"), 1.0),
        idle_share=statistics.fmean(idle),
        idle_by_engine=tuple(idle),
        max_lag=max_lag,
        on_policy=max_lag == 0,
        num_moves=mean("num_moves"),
        preemptions=mean("preemptions"),
        dropped=mean("num_dropped"),
        trained_per_step=statistics.fmean(r["num_trained"] / r["num_measured"] for r in results),
        seconds_per_step=statistics.fmean(r["seconds"] / r["num_measured"] for r in results),
    )


def over(rates: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of rates over base, seed by seed, and its 95 % interval."""
    mean, low, high = mean_interval([math.log(a / b) for a, b in zip(rates, base, strict=True)])
    return math.exp(mean), math.exp(low), math.exp(high) if high < math.inf else math.inf


def speed(result: Result) -> float:
    """Trajectories a second that were trained on."""
    if result["num_trained"] == 0:
        raise ConfigError("no trajectory was trained on: simulate more steps, or loosen scheduling.max_lag")
    if result["seconds"] == 0:
        raise ConfigError("the steps that are measured took no time, all of it lies before them: simulate more steps")
    return result["num_trained"] / result["seconds"]
