"""Simulations against a plain twin, and what their rows must be."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath import _C
from agentmath.config.scenario import MODES, PolicySection, Scenario
from agentmath.config.scenario_file import load_scenario, shipped_scenarios
from agentmath.core.errors import ConfigError, TrainingError
from agentmath.orchestration.simulation import make_row, over, run_once, settings_of, simulate
from one_engine import batch_seconds, plan

SMALL = (
    "--workload.mean_sampled_tokens=60",
    "--workload.max_sampled_tokens=300",
    "--workload.prompt_tokens=20",
    "--tools.tokens_per_call=25",
    "--tools.output_tokens=6",
    "--engines.prefill_seconds_per_token=0.001",
    "--trainer.train_seconds=0",
    "--trainer.update_seconds=0",
    "--run.steps=1",
    "--run.warmup_steps=0",
)


def once(scenario: Scenario, mode: str, policy: PolicySection | None = None, seed: int = 1) -> dict[str, Any]:
    made = settings_of(scenario, mode, policy or scenario.policies[0], seed)
    return run_once(made, _C.simulator.Stop())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**40),
    kv_tokens=st.integers(420, 3000),
    max_batch=st.integers(0, 5),
    correlation=st.sampled_from([0.0, 0.6, 1.0]),
    per_context=st.sampled_from([0.0, 1e-6, 1e-4]),
)
def test_one_engine_takes_the_time_that_its_twin_counts_token_by_token(
    seed: int, kv_tokens: int, max_batch: int, correlation: float, per_context: float
) -> None:
    scenario = load_scenario(
        "quickstart",
        [
            *SMALL,
            "--engines.count=1",
            f"--engines.kv_tokens={kv_tokens}",
            f"--engines.max_batch={max_batch}",
            f"--engines.step_seconds_per_context_token={per_context}",
            f"--workload.group_correlation={correlation}",
            "--workload.groups_per_step=3",
        ],
    )
    made = settings_of(scenario, "batch", scenario.policies[0], seed)
    found = run_once(made, _C.simulator.Stop())
    wanted = batch_seconds(made["workload"], made["engine"], seed=seed, numbers=range(12))
    assert found["seconds"] == pytest.approx(wanted, rel=1e-6)
    tokens = sum(turn[0] for number in range(12) for turn in plan(made["workload"], seed, number))
    assert found["sampled_tokens"] == found["trained_tokens"] == tokens


@given(seed=st.integers(0, 2**63), number=st.integers(0, 2**40))
def test_trajectories_are_drawn_as_the_twin_draws_them(seed: int, number: int) -> None:
    scenario = load_scenario("agentmath_8b")
    workload = settings_of(scenario, "batch", scenario.policies[0], 1)["workload"]
    found, wanted = _C.simulator.plan(workload, seed, number), plan(workload, seed, number)
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in wanted]
    assert [seconds for _, seconds in found] == pytest.approx([seconds for _, seconds in wanted], abs=1e-8)


@pytest.mark.parametrize("mode", MODES)
def test_equal_seeds_give_equal_results_bit_for_bit(mode: str) -> None:
    scenario = load_scenario("quickstart")
    first = once(scenario, mode)
    assert once(scenario, mode) == first
    assert once(scenario, mode, seed=2) != first


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_no_row_of_a_shipped_scenario_beats_its_limit(name: str) -> None:
    few = ["--run.num_seeds=1", "--run.steps=2", "--run.warmup_steps=1", "--workload.groups_per_step=8"]
    simulated = simulate(load_scenario(name, [*few, "--engines.count=4"]))
    for row in simulated.rows:
        assert 0 < row.of_limit <= 1
        assert 0 <= row.hit <= 1
        assert 0 <= row.idle_share < 1
        assert row.on_policy == (row.max_lag == 0)
        if row.mode in ("lockstep", "batch"):
            assert row.on_policy


def test_partial_rollouts_beat_batches_and_breaking_away_beats_staying() -> None:
    """The order of the ladder at 16 trajectories an engine, on a smaller cluster."""
    few = ["--run.num_seeds=2", "--run.steps=3", "--run.warmup_steps=2"]
    simulated = simulate(load_scenario("agentmath_8b", [*few, "--workload.groups_per_step=16", "--engines.count=8"]))
    rate = {(row.mode, row.policy): row.trajectories_per_second for row in simulated.rows}
    for policy in ("published", "ours"):
        ladder = [rate[mode, policy] for mode in ("lockstep", "batch", "segments", "quota")]
        assert ladder == sorted(ladder)
    assert rate["batch", "ours"] > rate["batch", "published"]
    assert rate["segments", "ours"] > 1.05 * rate["segments", "published"]


def test_factors_are_over_the_baseline_of_the_same_seed() -> None:
    simulated = simulate(load_scenario("quickstart"))
    batch, quota = (next(r for r in simulated.rows if r.mode == mode) for mode in ("batch", "quota"))
    assert batch.factor == pytest.approx(1)
    ratios = [a / b for a, b in zip(quota.rates, batch.rates, strict=True)]
    assert quota.factor == pytest.approx(math.prod(ratios) ** (1 / len(ratios)))
    assert quota.factor_ci[0] < quota.factor < quota.factor_ci[1]


def test_one_seed_says_nothing_of_the_spread() -> None:
    factor, low, high = over([3.0], [2.0])
    assert (factor, low, high) == (pytest.approx(1.5), 0.0, math.inf)


def test_a_baseline_may_name_its_policy() -> None:
    overrides = ["--scheduling.baseline=batch/ours", '--scheduling.modes=["batch"]', "--run.num_seeds=1"]
    simulated = simulate(load_scenario("no_tools", [*overrides, "--run.steps=1", "--workload.groups_per_step=4"]))
    assert {row.policy: row.factor for row in simulated.rows}["ours"] == pytest.approx(1)


def test_a_timeline_is_given_for_the_first_seed_when_it_is_wanted() -> None:
    scenario = load_scenario("quickstart", ["--run.num_seeds=2"])
    first = simulate(scenario, with_timelines=True).first
    assert all(len(result["timeline"]["decode"]) == scenario.engines.count for result in first)
    assert all("timeline" not in result for result in simulate(scenario).first)


def test_nothing_trained_is_said_and_not_divided_by() -> None:
    scenario = load_scenario("quickstart")
    result = once(scenario, "batch")
    for change, said in (({"num_trained": 0}, "no trajectory was trained on"), ({"seconds": 0.0}, "took no time")):
        with pytest.raises(ConfigError, match=said):
            make_row("batch", scenario.policies[0], [{**result, **change}], [result])


def test_a_simulation_that_is_stopped_says_so() -> None:
    scenario = load_scenario("agentmath_8b")
    stop = _C.simulator.Stop()
    stop.set()
    with pytest.raises(TrainingError, match="stopped"):
        run_once(settings_of(scenario, "batch", scenario.policies[0], 1), stop)


def test_settings_that_nobody_reads_or_that_are_missing_are_defects() -> None:
    scenario = load_scenario("quickstart")
    made = settings_of(scenario, "batch", scenario.policies[0], 1)
    for broken in ({**made, "more": 1}, {k: v for k, v in made.items() if k != "engine"}):
        with pytest.raises(KeyError):
            _C.simulator.simulate(broken, _C.simulator.Stop(), with_timeline=False)


def test_what_the_scheduler_refuses_is_a_fault_of_the_scenario() -> None:
    scenario = load_scenario("quickstart")
    made = settings_of(scenario, "batch", scenario.policies[0], 1)
    made["scheduler"]["groups_per_step"] = -1
    with pytest.raises(ConfigError, match="groups"):
        run_once(made, _C.simulator.Stop())
