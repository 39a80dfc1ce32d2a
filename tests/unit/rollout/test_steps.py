"""Groups over many steps: begun, parked, handed out once, kept over a restart; each of a length of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath.agents.single import SingleAgent
from agentmath.config.curriculum import CurriculumSection
from agentmath.config.prompt import PromptSection
from agentmath.config.rollout import RolloutSection
from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Group, Sampling, StopReason, Task
from agentmath.rollout import parking
from agentmath.rollout.collector import Collector
from agentmath.rollout.episode import Stage
from agentmath.rollout.scheduler import Scheduler, settings_of
from characters import CharTokenizer

TASK = Task(id="t", question="Q", answer="1")


class Babble:
    """Says a trajectory's length in y's, one a turn of the loop, and ends; may be aborted."""

    def __init__(self, length: Callable[[int], int]) -> None:
        self.length, self.version = length, 0
        self.said: dict[int, int] = {}
        self.stopped: set[int] = set()
        self.most_at_once = self.num_now = 0

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        self.num_now += 1
        self.most_at_once = max(self.most_at_once, self.num_now)
        codes: list[int] = []
        versions: list[int] = []
        reason = StopReason.LENGTH
        while len(codes) < sampling.max_new_tokens:
            await asyncio.sleep(0)
            if session in self.stopped:
                reason = StopReason.ABORTED
                break
            done = self.said.get(session, 0)
            codes.append(ord("y") if done < self.length(session) else 0)
            versions.append(self.version)
            self.said[session] = done + 1
            if not codes[-1]:
                reason = StopReason.EOS
                break
        self.num_now -= 1
        n = len(codes)
        return Completion(
            ids=np.array(codes, dtype=np.int32),
            logprobs=np.full(n, -1.0, dtype=np.float32),
            versions=np.array(versions, dtype=np.int32),
            stop_reason=reason,
        )

    async def abort(self, session: int) -> None:
        self.stopped.add(session)

    def close_session(self, session: int) -> None:
        self.stopped.discard(session)

    async def update_weights(self, version: int, tensors: Any) -> None:
        self.version = version


class Run:
    """Steps of a collector without a trainer."""

    def __init__(self, engine: Any, *, pauses: bool = True, **section: Any) -> None:
        agent = SingleAgent(tokenizer=CharTokenizer(), section=PromptSection(chat=False), max_tool_output_tokens=50)
        budgets = {"max_sampled_tokens": 200, "max_context_tokens": 400, "groups_per_step": 2, "group_size": 2}
        self.section = RolloutSection(**{**budgets, **section})
        tool: Any = None
        self.engine = engine
        self.stage = Stage(
            agent=agent, engine=engine, tool=tool, section=self.section, seed=0, purpose="rl", temperature=1.0
        )
        scheduler = Scheduler(settings_of([self.section], CurriculumSection()))
        self.collector = Collector(stage=self.stage, scheduler=scheduler, pauses=pauses)
        self.next, self.version = 0, 0
        self.trained: list[list[Group]] = []

    def draw(self, count: int) -> list[tuple[int, Task]]:
        begin, self.next = self.next, self.next + count
        return [(ordinal, TASK) for ordinal in range(begin, self.next)]

    def step(self, runner: asyncio.Runner) -> None:
        self.engine.version = self.version
        wanted = self.section.groups_per_step
        collected = self.collector.collect(self.draw, wanted=wanted, step=self.version, version=self.version)
        self.trained.append(runner.run(collected))
        assert self.collector.drop_stale(self.trained[-1], version=self.version)[1] == 0
        self.version += 1

    @property
    def ordinals(self) -> list[list[int]]:
        return [[g.ordinal for g in groups] for groups in self.trained]


def lengths(*of_groups: int) -> Callable[[int], int]:
    """Both samples of group i have of_groups[i] tokens before the end; later ones 3."""
    return lambda session: of_groups[session >> 16] if session >> 16 < len(of_groups) else 3


def steps(run: Run, count: int) -> Run:
    with asyncio.Runner() as runner:
        for _ in range(count):
            run.step(runner)
        runner.run(run.collector.pause())
    return run


def test_a_batch_waits_for_the_longest() -> None:
    run = steps(Run(Babble(lengths(3, 90, 3, 3))), 2)
    assert run.ordinals == [[0, 1], [2, 3]]
    assert all(len(t.segments) == 1 for groups in run.trained for g in groups for t in g.trajectories)


def test_a_pass_that_reached_its_bound_goes_on_in_the_next_step_with_newer_weights() -> None:
    run = steps(Run(Babble(lengths(3, 30)), mode="segments", segment_sampled_tokens=20), 2)
    assert run.ordinals == [[0], [1, 2]]
    parked = run.trained[1][0].trajectories[0]
    assert [s.num_sampled_tokens for s in parked.segments] == [20, 11]
    assert [s.step for s in parked.segments] == [0, 1]
    versions = parked.tokens.versions[parked.tokens.trainable]
    assert versions.tolist() == [0] * 20 + [1] * 11
    assert parked.oldest_version == 0


def test_a_quota_leaves_the_long_ones_for_later_and_loses_nothing() -> None:
    run = steps(Run(Babble(lengths(60, 3, 3, 3)), mode="quota", max_staleness=9), 3)
    assert run.ordinals[0] == [1, 2]
    flat = [ordinal for ordinals in run.ordinals for ordinal in ordinals]
    assert len(flat) == len(set(flat)) == 6
    kept = [*run.collector.groups]
    assert sorted(flat + kept) == list(range(run.next))


def test_a_step_waits_for_a_group_before_it_gets_too_old() -> None:
    # Group 0 begins at version 0 and may be trained on at version 1 at the latest.
    run = steps(Run(Babble(lengths(150)), mode="quota", max_staleness=1, over_submission=2.0), 2)
    assert 0 in run.ordinals[1]
    old = run.trained[1][0].trajectories[0]
    assert old.is_finished
    assert old.oldest_version == 0


def test_async_carries_running_trajectories_over_a_change_of_weights() -> None:
    run = steps(Run(Babble(lengths(40)), pauses=False, mode="async", max_staleness=3, max_in_flight=8), 4)
    (group,) = [g for groups in run.trained for g in groups if g.ordinal == 0]
    for t in group.trajectories:
        assert len(t.segments) == 1
        versions = t.tokens.versions[t.tokens.trainable].tolist()
        assert versions == sorted(versions)
        assert len(set(versions)) > 1


@pytest.mark.parametrize("mode", ["quota", "async", "segments"])
def test_without_lag_and_bounds_every_mode_is_a_batch(mode: str) -> None:
    long = lengths(60, 3, 9, 3, 30)
    batch = steps(Run(Babble(long), max_staleness=0), 3)
    other = steps(Run(Babble(long), mode=mode, max_staleness=0), 3)
    assert other.ordinals == batch.ordinals
    for a, b in zip(batch.trained, other.trained, strict=True):
        assert parking.to_bytes(a) == parking.to_bytes(b)


def test_no_more_context_runs_at_a_time_than_the_engine_holds() -> None:
    prompt = len(Run(Babble(lengths())).stage.agent.prompt(TASK))
    engine = Babble(lengths(*[5] * 8))
    run = steps(Run(engine, groups_per_step=4, max_running_context_tokens=3 * prompt), 1)
    assert run.ordinals == [[0, 1, 2, 3]]
    assert engine.most_at_once == 3


def test_a_passed_deadline_names_what_was_awaited() -> None:
    engine = Babble(lengths(10**9))
    run = Run(engine, max_sampled_tokens=10**9, max_context_tokens=10**9, deadline_seconds=0.2)
    with asyncio.Runner() as runner, pytest.raises(EngineError, match=r"2 of 4 trajectories .* 0\.2 .*first: 0/0, 0/1"):
        run.step(runner)


@given(
    mode=st.sampled_from(["batch", "segments", "quota", "async"]),
    long=st.lists(st.integers(1, 60), min_size=6, max_size=14),
    killed_at=st.sampled_from([None, 1, 2, 3]),
    lag=st.integers(1, 3),
    pauses=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_every_group_is_trained_once_also_over_a_restart(
    mode: str, long: list[int], killed_at: int | None, lag: int, pauses: bool
) -> None:
    options: dict[str, Any] = {"mode": mode, "max_staleness": max(lag, 9 if mode == "segments" else 0)}
    if mode == "segments":
        options |= {"segment_sampled_tokens": 10, "max_segments": 9}
    run = Run(Babble(lengths(*long)), pauses=pauses, **options)
    with asyncio.Runner() as runner:
        for number in range(5):
            run.step(runner)
            if number + 1 == killed_at:
                runner.run(run.collector.pause())
                again = Run(run.engine, pauses=pauses, **options)
                again.collector.restore(run.collector.snapshot())
                again.next, again.version, again.trained = run.next, run.version, run.trained
                run = again
        runner.run(run.collector.pause())
    flat = [g for groups in run.trained for g in groups]
    ordinals = [g.ordinal for g in flat]
    assert len(ordinals) == len(set(ordinals))
    assert sorted([*ordinals, *run.collector.groups]) == list(range(run.next))
    for version, groups in enumerate(run.trained):
        for t in (t for g in groups for t in g.trajectories):
            assert t.is_finished
            assert t.num_sampled_tokens == (long[t.ordinal] if t.ordinal < len(long) else 3) + 1
            assert t.oldest_version is not None
            assert version - t.oldest_version <= options["max_staleness"]
