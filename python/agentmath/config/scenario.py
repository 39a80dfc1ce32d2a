"""A scenario of `agentmath simulate`: workload, tools, engines and the ways of scheduling to compare."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section

MODES = ("lockstep", "batch", "segments", "quota", "async")
Mode = Literal["lockstep", "batch", "segments", "quota", "async"]
Balancer = Literal[
    "agentmath",
    "breakable",
    "round_robin",
    "least",
    "power_of_two",
    "consistent_hash",
    "radix",
    "score",
]
_MOST_TOKENS = 10**9
_MOST_SECONDS = 1e5


class WorkloadSection(Section):
    """[workload]: what is sampled. Lengths are lognormal; their logarithms correlate within a group."""

    groups_per_step: int = Field(default=64, ge=1, le=10**5)
    """Groups that one training step takes."""
    group_size: int = Field(default=8, ge=1, le=10**4)
    prompt_tokens: int = Field(default=512, ge=1, le=_MOST_TOKENS)
    mean_sampled_tokens: float = Field(default=17000.0, ge=1, le=_MOST_TOKENS)
    """Mean generated length of a trajectory before the cut at max_sampled_tokens."""
    length_sigma: float = Field(default=1.0, ge=0, le=5)
    """Standard deviation of the logarithm of the length; 1 gives a p99 of ten medians."""
    group_correlation: float = Field(default=0.6, ge=0, le=1)
    """Share of that variance which the samples of a group have in common."""
    max_sampled_tokens: int = Field(default=96000, ge=1, le=_MOST_TOKENS)


class ToolsSection(Section):
    """[tools]: how often they are called and how long they take (lognormal)."""

    tokens_per_call: float = Field(default=2000.0, ge=0, le=_MOST_TOKENS)
    """Mean sampled tokens from one call to the next; 0 is a workload without tools."""
    max_calls: int = Field(default=96, ge=0, le=10**6)
    median_seconds: float = Field(default=0.4, ge=0, le=_MOST_SECONDS)
    seconds_sigma: float = Field(default=1.2, ge=0, le=5)
    timeout_share: float = Field(default=0.005, ge=0, le=1)
    """Calls that never answer; slow ones that pass timeout_seconds come on top."""
    timeout_seconds: float = Field(default=30.0, ge=0, le=_MOST_SECONDS)
    output_tokens: int = Field(default=0, ge=0, le=_MOST_TOKENS)
    """Tokens that each call puts into the context."""


class EnginesSection(Section):
    """[engines]: all alike. A decode step of B sequences with C context tokens in all takes step_seconds + B *
    step_seconds_per_sequence + C * step_seconds_per_context_token; measure three steps to fit them."""

    count: int = Field(default=32, ge=1, le=4096)
    kv_tokens: int = Field(default=340_000, ge=2, le=10**12)
    """Tokens that fit into the KV cache of one engine."""
    max_batch: int = Field(default=0, ge=0, le=10**6)
    """Sequences that one engine decodes at once; 0 is as many as the KV cache holds."""
    step_seconds: float = Field(default=0.008, ge=0, le=100)
    step_seconds_per_sequence: float = Field(default=20e-6, gt=0, le=100)
    step_seconds_per_context_token: float = Field(default=45e-9, ge=0, le=1)
    prefill_seconds_per_token: float = Field(default=40e-6, ge=0, le=1)
    report_tokens: int = Field(default=64, ge=1, le=10**6)
    """Decode steps between two reports of lengths to the balancer; more is a faster simulation."""


class TrainerSection(Section):
    """[trainer]: what happens between two rounds of rollouts."""

    train_seconds: float = Field(default=0.0, ge=0, le=_MOST_SECONDS)
    """One optimiser step. Engines go on meanwhile in mode async only."""
    update_seconds: float = Field(default=3.0, ge=0, le=_MOST_SECONDS)
    """Engines stand still while new weights come."""
    interrupts: bool = False
    """Mode async: requests are taken back and placed anew for an update, else they stay on their engine and pause."""
    keeps_kv: bool = False
    """KV caches of the old weights are used on: faster, and wrong by as much as the weights moved."""


class SchedulingSection(Section):
    """[scheduling]: the modes to compare and their bounds."""

    modes: tuple[Mode, ...] = Field(default=MODES, min_length=1)
    """lockstep waits for all after every turn, batch for all trajectories; see docs/rollouts.md for the others."""
    baseline: str = "lockstep"
    """Mode that factors are over; MODE/POLICY names one row, MODE alone takes its first policy."""
    segment_sampled_tokens: int = Field(default=24000, ge=0, le=_MOST_TOKENS)
    """Mode segments: sampled tokens of one pass; 0 sets no bound."""
    segment_tool_calls: int = Field(default=24, ge=0, le=10**6)
    max_segments: int = Field(default=4, ge=1, le=10**6)
    segment_fill: float = Field(default=1.0, ge=0, le=100)
    """Mode segments: trajectories at work in one round, over groups_per_step * group_size. New groups take the places
    of those that ended, also while others of their groups go on; 0: only whole groups are replaced, and engines see
    ever fewer trajectories."""
    over_submission: float = Field(default=1.5, ge=1, le=100)
    """Mode quota: groups in flight over groups_per_step."""
    max_in_flight: int = Field(default=0, ge=0, le=10**7)
    """Mode async: trajectories in flight; 0 is what one step takes."""
    max_lag: int = Field(default=-1, ge=-1, le=10**6)
    """Modes quota and async: versions between the oldest token of a group and the weights it trains; -1 is no bound."""
    overdue: Literal["wait", "truncate", "cancel"] = "wait"
    """What becomes of a trajectory that max_lag would let go to waste."""


class PolicySection(Section):
    """[[policies]]: one way of placing requests on engines; every mode runs with each."""

    name: str = Field(default="", max_length=40)
    """Name of its rows; the balancer's, where empty."""
    balancer: Balancer = "breakable"
    kv_share: float = Field(default=0.0, ge=0, le=1)
    """Admission: share of all KV caches that trajectories in flight may fill; 0 admits everything."""
    tokens_per_weight: int = Field(default=4096, ge=1, le=_MOST_TOKENS)
    """L_base of the published weight floor(L / L_base) + w_base."""
    base_weight: float = Field(default=1.0, ge=0, le=10**6)
    """w_base of the published weight."""
    break_factor: float = Field(default=1.2, ge=1, le=1000)
    """Balancer breakable: a session may leave a home heavier than this many times the lightest engine."""
    reroute_tokens: int = Field(default=0, ge=0, le=_MOST_TOKENS)
    """Requests are cut after so many tokens and placed anew; 0 places at turns only."""


class RunSection(Section):
    """[run]: how much is simulated."""

    num_seeds: int = Field(default=3, ge=1, le=1000)
    first_seed: int = Field(default=1, ge=0, le=2**53)
    steps: int = Field(default=8, ge=1, le=10**5)
    """Training steps that are measured."""
    warmup_steps: int = Field(default=4, ge=0, le=10**5)
    """Steps before these, in which engines fill and long trajectories come of age."""


class Scenario(Section):
    """A whole scenario file."""

    workload: WorkloadSection = WorkloadSection()
    tools: ToolsSection = ToolsSection()
    engines: EnginesSection = EnginesSection()
    trainer: TrainerSection = TrainerSection()
    scheduling: SchedulingSection = SchedulingSection()
    policies: tuple[PolicySection, ...] = Field(
        default=(PolicySection(balancer="agentmath"), PolicySection(balancer="breakable", kv_share=0.8)), min_length=1
    )
    run: RunSection = RunSection()
