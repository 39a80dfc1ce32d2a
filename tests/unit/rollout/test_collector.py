"""Steps of rollouts in each mode, with a scripted engine: who is carried over, interrupted, tried again, given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath.config.curriculum import CurriculumSection
from agentmath.core.errors import CheckpointError, ConfigError, EngineError, SandboxError
from agentmath.core.types import Completion, Group, Sampling, StopReason, Task, ToolCall, ToolResult, Trajectory
from agentmath.rollout.collector import Collector
from agentmath.rollout.episode import Stage
from agentmath.rollout.scheduler import Scheduler, settings_of
from characters import CharTokenizer
from scripted_rollouts import EchoTool, StreamEngine, stage

SCRIPT = "<think>a</think><code>x = 1</code><code>yy</code>\\boxed{12}"


class Tasks:
    """An endless stream; `drawn` is how far it was read."""

    def __init__(self, drawn: int = 0) -> None:
        self.drawn = drawn

    def __call__(self, count: int) -> list[tuple[int, Task]]:
        self.drawn += count
        return [(o, Task(id=f"t{o}", question="Q", answer="1")) for o in range(self.drawn - count, self.drawn)]


def collector(where: Stage, *, pauses: bool = True) -> Collector:
    return Collector(stage=where, scheduler=Scheduler(settings_of([where.section], CurriculumSection())), pauses=pauses)


def slow_stage(script: str = SCRIPT, tool: EchoTool | None = None, **budget: int | float | str) -> Stage:
    """A stage whose engine gives other tasks a turn at every token."""
    where = stage(script, tool, **{"groups_per_step": 2, "group_size": 2, **budget})  # type: ignore[arg-type]
    return replace(where, engine=StreamEngine(script, turns_every_token=True))


def step(one: Collector, tasks: Tasks, number: int, wanted: int = 2) -> list[Group]:
    one.stage.engine.version = number  # type: ignore[attr-defined]
    return asyncio.run(one.collect(tasks, wanted=wanted, step=number, version=number))


def ordinals(groups: Sequence[Group]) -> list[int]:
    return [g.ordinal for g in groups]


def text(trajectory: Trajectory) -> str:
    return CharTokenizer().decode(trajectory.tokens.ids.tolist())


def test_unfinished_groups_are_parked_and_come_back_whole() -> None:
    one, tasks = collector(slow_stage("y" * 30, segment_sampled_tokens=20, max_segments=5)), Tasks()
    assert step(one, tasks, 0) == []
    assert ordinals(one.parked) == [0, 1]
    second = step(one, tasks, 1)
    assert ordinals(second) == [0, 1]
    assert one.groups == {}
    assert tasks.drawn == 2
    assert all(len(t.segments) == 2 for g in second for t in g.trajectories)


def test_groups_too_old_by_their_oldest_token_are_dropped() -> None:
    one, tasks = collector(slow_stage("y" * 30, segment_sampled_tokens=20, max_segments=5, max_staleness=1)), Tasks()
    step(one, tasks, 0)
    groups = step(one, tasks, 1)
    assert groups[0].trajectories[0].oldest_version == 0
    assert one.drop_stale(groups, version=1) == (groups, 0)
    assert one.drop_stale(groups, version=2) == ([], 2)


@dataclass
class UnevenEngine(StreamEngine):
    """Every other task takes ten times as many turns of the loop."""

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        if (session >> 16) % 2 == 0:
            for _ in range(300):
                if session in self.aborted:
                    break
                await asyncio.sleep(0)
        was_aborted = session in self.aborted
        if was_aborted:
            self.aborted.discard(session)
            return Completion.unsampled([], StopReason.ABORTED)
        return await super().generate(ids, sampling, session=session)


def test_a_quota_takes_the_first_and_carries_the_others_over() -> None:
    where = slow_stage(mode="quota", over_submission=2.0, max_staleness=3)
    one, tasks = collector(replace(where, engine=UnevenEngine(SCRIPT, turns_every_token=True))), Tasks()
    first = step(one, tasks, 0)
    assert ordinals(first) == [1, 3]
    assert set(one.groups) >= {0, 2}
    assert all(t.stop_reason is StopReason.SEGMENT for g in one.parked for t in g.trajectories)
    seen = ordinals(first)
    for number in range(1, 5):
        seen += ordinals(step(one, tasks, number))
    assert len(seen) == len(set(seen)) == 10
    assert {0, 2} <= set(seen)


@pytest.mark.parametrize("mode", ["segments", "quota", "async"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_interruptions_leave_no_gap_and_no_repeat(mode: str, data: st.DataObject) -> None:
    """Whatever is cut off where: a trajectory is its script with the tool's output in it, and versions never fall."""
    bound = data.draw(st.integers(1, 30)) if mode == "segments" else 0
    where = slow_stage(
        mode=mode,
        segment_sampled_tokens=bound,
        max_segments=1000,
        over_submission=data.draw(st.sampled_from([1.5, 3.0])),
        max_staleness=data.draw(st.integers(1, 4)),
        max_running_context_tokens=data.draw(st.sampled_from([0, 60, 200])),
        group_size=data.draw(st.integers(2, 3)),
    )
    engine, tasks = UnevenEngine(SCRIPT, turns_every_token=data.draw(st.booleans())), Tasks()
    one = collector(replace(where, engine=engine))
    seen: list[Group] = []
    for number in range(data.draw(st.integers(1, 5))):
        seen += step(one, tasks, number)
    expected = "Q\n<think>a</think><code>x = 1</code><interpreter>5</interpreter>"
    expected += "<code>yy</code><interpreter>2</interpreter>\\boxed{12}"
    for trajectory in [t for g in seen for t in g.trajectories]:
        assert text(trajectory).rstrip("\0") == expected
        assert trajectory.stop_reason is StopReason.ANSWER
        tokens = trajectory.tokens
        versions = tokens.versions[tokens.trainable].tolist()
        assert versions == sorted(versions)
        assert len(tokens.ids) == len(tokens.versions) == len(tokens.logprobs) == len(tokens.kinds)
        assert sum(s.num_turns for s in trajectory.segments) >= len(trajectory.turns)
    for trajectory in [t for g in one.parked for t in g.trajectories]:
        assert expected.startswith(text(trajectory).rstrip("\0"))


def test_a_snapshot_in_the_middle_changes_nothing() -> None:
    def run(restarts: bool) -> list[tuple[int, str, list[int]]]:
        where = slow_stage(mode="quota", over_submission=2.0, max_staleness=2)
        where = replace(where, engine=UnevenEngine(SCRIPT, turns_every_token=True))
        one, tasks, seen = collector(where), Tasks(), list[Group]()
        for number in range(5):
            seen += step(one, tasks, number)
            if restarts:
                data = one.snapshot()
                one = collector(where)
                one.restore(data)
                assert one.snapshot() == data
        return [(g.ordinal, text(t), t.tokens.versions.tolist()) for g in seen for t in g.trajectories]

    assert run(restarts=True) == run(restarts=False)


def test_a_damaged_snapshot_is_refused() -> None:
    one = collector(slow_stage("y" * 30, segment_sampled_tokens=20))
    step(one, Tasks(), 0)
    data = bytearray(one.snapshot())
    data[len(data) // 2] ^= 1
    with pytest.raises(CheckpointError, match="damaged"):
        collector(slow_stage()).restore(bytes(data))


@dataclass
class FailingEngine(StreamEngine):
    """The first `failures` requests of each session are lost."""

    failures: int = 1
    num_failed: dict[int, int] = field(default_factory=dict)

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        self.num_failed[session] = self.num_failed.get(session, 0) + 1
        if self.num_failed[session] <= self.failures:
            raise EngineError("the engine is gone")
        return await super().generate(ids, sampling, session=session)


@pytest.mark.parametrize(("failures", "ends"), [(1, StopReason.ANSWER), (2, StopReason.ERROR)])
def test_what_an_engine_lost_is_tried_again_once(failures: int, ends: StopReason) -> None:
    where = replace(slow_stage(mode="batch", max_retries=1), engine=FailingEngine(SCRIPT, failures=failures))
    groups = step(collector(where), Tasks(), 0)
    ended = [t for g in groups for t in g.trajectories]
    assert [t.stop_reason for t in ended] == [ends] * 4
    assert [t.error for t in ended] == [None if ends is StopReason.ANSWER else "the engine is gone"] * 4


@dataclass
class FailingTool(EchoTool):
    """Its first call is lost."""

    async def run(self, call: ToolCall, session: str) -> ToolResult:
        if not self.calls:
            self.calls.append("lost")
            raise SandboxError("the sandbox is gone")
        return await super().run(call, session)


@dataclass
class RereadingEngine(StreamEngine):
    """Goes on from what the context holds of its script, as a model would that says the same each time."""

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        said = CharTokenizer().decode(list(ids))[2:]
        for output in ("<interpreter>5</interpreter>", "<interpreter>2</interpreter>"):
            said = said.replace(output, "")
        assert self.script.startswith(said)
        self.position[session] = len(said)
        return await super().generate(ids, sampling, session=session)


@pytest.mark.parametrize("bound", [0, 1, 5, 20])
def test_a_turn_whose_tool_was_lost_is_spoken_again(bound: int) -> None:
    tool = FailingTool()
    where = slow_stage(tool=tool, max_retries=1, segment_sampled_tokens=bound, max_segments=1000)
    one, tasks = collector(replace(where, engine=RereadingEngine(SCRIPT))), Tasks()
    seen: list[Group] = []
    for number in range(100):
        seen += step(one, tasks, number, wanted=2 - len(seen))
        if len(seen) == 2:
            break
    assert [t.stop_reason for g in seen for t in g.trajectories] == [StopReason.ANSWER] * 4
    assert {text(t).count("<interpreter>") for g in seen for t in g.trajectories} == {2}
    assert tool.num_open == 0


def test_the_deadline_of_a_step_ends_everything_and_names_who_is_missing() -> None:
    tool = EchoTool(delay_seconds=30.0)
    one = collector(slow_stage(tool=tool, mode="quota", deadline_seconds=0.2))
    with pytest.raises(EngineError, match=r"step 0: 6 of 6 trajectories .*0\.2 .*0/0"):
        step(one, Tasks(), 0)
    assert tool.num_open == 0


def test_an_episode_that_breaks_is_raised_and_leaves_nothing_behind() -> None:
    @dataclass
    class BrokenTool(EchoTool):
        async def run(self, call: ToolCall, session: str) -> ToolResult:
            raise ZeroDivisionError("a bug")

    tool = BrokenTool()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        step(collector(slow_stage(tool=tool)), Tasks(), 0)
    assert tool.num_open == 0


def test_a_stream_of_tasks_that_ends_ends_the_rollouts() -> None:
    one = collector(slow_stage(mode="quota", over_submission=3.0))
    three = iter(Tasks()(3))
    groups = asyncio.run(
        one.collect(lambda n: [t for t, _ in zip(three, range(n), strict=False)], wanted=2, step=0, version=0)
    )
    assert len(groups) == 2
    rest = asyncio.run(one.collect(lambda n: [], wanted=2, step=1, version=1))
    assert ordinals([*groups, *rest]) == [0, 1, 2]


def test_a_prompt_that_leaves_no_room_ends_as_too_long() -> None:
    groups = step(collector(slow_stage(max_context_tokens=2)), Tasks(), 0)
    assert {t.stop_reason for g in groups for t in g.trajectories} == {StopReason.LENGTH}


def test_what_is_waited_for_can_be_read() -> None:
    where = slow_stage(mode="quota", over_submission=2.0, max_staleness=2)
    scheduler = Scheduler(settings_of([where.section], CurriculumSection()))
    one = Collector(stage=replace(where, engine=UnevenEngine(SCRIPT, turns_every_token=True)), scheduler=scheduler)
    step(one, Tasks(), 0)
    state = json.loads(scheduler.dump())
    assert state["trajectories"]["parked"] == len(state["unfinished"]) > 0
    assert {entry["state"] for entry in state["unfinished"]} == {"parked"}


@pytest.mark.parametrize("pauses_once", [False, True])
def test_rollouts_that_need_not_pause_go_on_beside_the_trainer(pauses_once: bool) -> None:
    """Between two rounds the loop turns, as it does while the trainer works in a thread; new groups begin as the lag
    allows. They pause when they are told to, and go on with the next round."""
    where = slow_stage(mode="async", max_staleness=1)
    engine = UnevenEngine(SCRIPT, turns_every_token=True)
    one, tasks, seen = collector(replace(where, engine=engine), pauses=False), Tasks(), list[Group]()

    async def train() -> None:
        asked = len(engine.requests)
        while len(engine.requests) < asked + 3 and any(not g.is_finished for g in one.groups.values()):
            await asyncio.sleep(0)

    async def run() -> None:
        for number in range(6):
            groups = await one.collect(tasks, wanted=2, step=number, version=number)
            seen.extend(groups)
            assert one.drop_stale(groups, version=number)[1] == 0
            if number == 0:
                kept = [t for g in one.groups.values() for t in g.trajectories]
                assert any(t.stop_reason is None for t in kept), "nothing runs between rounds"
            if number == 0 and pauses_once:
                await one.pause()
                assert all(t.stop_reason is not None for t in kept)
            else:
                await asyncio.wait_for(train(), 20)
            await engine.update_weights(number + 1, {})
        await one.close()

    asyncio.run(run())
    assert len(set(ordinals(seen))) == len(seen) == 12
    passes = {len(t.segments) for g in seen for t in g.trajectories}
    assert passes == ({1, 2} if pauses_once else {1})
    assert tasks.drawn <= 2 * 6 + 2


def test_settings_that_the_scheduler_refuses_are_a_fault_of_the_recipe() -> None:
    with pytest.raises(ConfigError, match="max_in_flight"):
        collector(slow_stage(max_in_flight=1 << 60))
