"""Generate, pause, execute, resume: one trajectory at a time, with a scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from agentmath.core.errors import EngineError
from agentmath.core.types import (
    Completion,
    Sampling,
    SpanKind,
    StopReason,
    Task,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
)
from agentmath.formats.dialect import Dialect
from agentmath.formats.dialects import DIALECTS
from agentmath.rollout.crew import run_all
from agentmath.rollout.episode import MAX_PAUSES_IN_A_ROW, Stage, request_seed, tool_seed
from characters import CharTokenizer
from scripted_rollouts import EchoTool, StreamEngine, stage


def new(where: Stage) -> Trajectory:
    task = Task(id="t", question="Q", answer="1")
    return Trajectory(task=task, sample_index=0, ordinal=3, prompt=where.agent.prompt(task))


def run(where: Stage, trajectory: Trajectory | None = None, step: int = 0) -> Trajectory:
    trajectory = trajectory or new(where)
    asyncio.run(run_all([trajectory], where, step=step))
    return trajectory


def text(trajectory: Trajectory) -> str:
    return CharTokenizer().decode(trajectory.tokens.ids.tolist())


def test_a_call_is_executed_and_its_output_inserted():
    tool = EchoTool()
    where = stage("<code>x</code>\\boxed{1}", tool)
    done = run(where)
    assert text(done) == "Q\n<code>x</code><interpreter>1</interpreter>\\boxed{1}"
    assert done.stop_reason is StopReason.ANSWER
    assert tool.calls == ["x"]
    assert tool.num_open == 0
    assert [t.stop_reason for t in done.turns] == [StopReason.STOP, StopReason.ANSWER]
    assert done.num_tool_calls == 1


def test_only_sampled_tokens_are_trainable():
    done = run(stage("<code>x</code>\\boxed{1}"))
    tokens = done.tokens
    assert CharTokenizer().decode(tokens.ids[tokens.trainable].tolist()) == "<code>x</code>\\boxed{1}"
    assert np.isnan(tokens.logprobs[~tokens.trainable]).all()
    assert (tokens.logprobs[tokens.trainable] == -0.5).all()
    assert (tokens.versions[~tokens.trainable] == -1).all()


def test_no_session_is_opened_without_a_call():
    class Refusing(EchoTool):
        async def open(self, *, seed: int) -> str:
            raise AssertionError("a session was opened")

    assert run(stage("\\boxed{1}", Refusing())).stop_reason is StopReason.ANSWER


def test_one_call_too_many_ends_the_trajectory_unexecuted():
    tool = EchoTool()
    done = run(stage("<code>a</code><code>b</code><code>c</code>", tool, max_tool_calls=2))
    assert done.stop_reason is StopReason.MAX_TOOL_CALLS
    assert tool.calls == ["a", "b"]
    assert done.num_tool_calls == 2


def test_generated_length_is_bounded_over_all_turns():
    done = run(stage("<code>a</code>" + "y" * 100, max_sampled_tokens=20))
    assert done.stop_reason is StopReason.LENGTH
    assert done.num_sampled_tokens == 20


def test_context_length_counts_prompt_and_outputs():
    done = run(stage("<code>a</code>" + "y" * 100, max_context_tokens=50))
    assert done.stop_reason is StopReason.LENGTH
    assert done.num_context_tokens == 50


def test_three_empty_blocks_in_a_row_end_it():
    tool = EchoTool()
    done = run(stage("<code></code>" * 9, tool))
    assert done.stop_reason is StopReason.INVALID_LIMIT
    assert len(done.turns) == 3
    assert tool.calls == []
    assert done.num_tool_calls == 0


def test_an_invented_output_ends_it_and_is_not_kept():
    done = run(stage("so <interpreter>5</interpreter>\\boxed{5}"))
    assert done.stop_reason is StopReason.INVENTED_OUTPUT
    assert text(done) == "Q\nso "


def test_the_output_tag_inside_a_program_does_not_end_it():
    tool = EchoTool()
    done = run(stage('<code>print("<interpreter>")</code>\\boxed{1}', tool))
    assert tool.calls == ['print("<interpreter>")']
    assert done.stop_reason is StopReason.ANSWER
    assert len(done.turns) == 2


def test_an_infrastructure_failure_is_an_error_and_no_turn():
    tool = EchoTool(status=ToolStatus.SANDBOX_ERROR)
    done = run(stage("<code>x</code>", tool))
    assert done.stop_reason is StopReason.ERROR
    assert "sandbox_error" in (done.error or "")
    assert tool.num_open == 0


def test_an_engine_failure_is_an_error():
    where = stage("x")

    async def fail(ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        raise EngineError("out of memory")

    where.engine.generate = fail  # type: ignore[method-assign]
    done = run(where)
    assert (done.stop_reason, done.error) == (StopReason.ERROR, "out of memory")


@pytest.mark.parametrize("bound", range(1, 30))
def test_segments_of_any_size_give_the_unsegmented_tokens(bound: int):
    script = "<think>a</think><code>x</code> so <code>yy</code>\\boxed{12}"
    whole = run(stage(script))
    where = stage(script, segment_sampled_tokens=bound, max_segments=100)
    parts = new(where)
    passes = 0
    while not parts.is_finished:
        run(where, parts, step=passes)
        passes += 1
    assert passes == len(parts.segments)
    assert max(s.num_sampled_tokens for s in parts.segments) <= bound
    assert parts.tokens.kinds.tolist() == whole.tokens.kinds.tolist()
    sampled = parts.tokens.ids[parts.tokens.trainable].tolist()
    assert sampled == whole.tokens.ids[whole.tokens.trainable].tolist()
    assert [t.stop_reason for t in parts.turns] == [t.stop_reason for t in whole.turns]


def test_earlier_programs_run_again_before_a_later_pass():
    tool = EchoTool()
    where = stage("<code>a=1</code><code>b</code>\\boxed{1}", tool, segment_tool_calls=1)
    parked = run(where)
    assert parked.stop_reason is StopReason.SEGMENT
    assert tool.num_open == 0
    run(where, parked, step=1)
    assert tool.calls == ["a=1", "a=1", "b"]
    assert tool.seeds == [tool_seed(where, parked)] * 2


def test_a_sandbox_that_fails_while_earlier_programs_run_again_is_not_the_models_fault():
    tool = EchoTool()
    where = stage("<code>a=1</code><code>b</code>\\boxed{1}", tool, segment_tool_calls=1)
    parked = run(where)
    tool.status = ToolStatus.QUEUE_TIMEOUT
    run(where, parked, step=1)
    assert tool.calls == ["a=1", "a=1"]
    assert (parked.stop_reason, parked.num_tool_calls) == (StopReason.ERROR, 1)
    assert tool.num_open == 0


def test_the_last_segment_has_no_bound():
    where = stage("y" * 100, segment_sampled_tokens=10, max_segments=2)
    parts = run(where)
    run(where, parts, step=1)
    assert parts.stop_reason is StopReason.EOS
    assert [s.num_sampled_tokens for s in parts.segments] == [10, 91]


def test_every_request_of_a_run_has_its_own_seed():
    where = stage("<code>x</code>" * 3 + "\\boxed{1}", max_tool_calls=5)
    run(where)
    other = Trajectory(task=Task(id="t", question="Q", answer="1"), sample_index=1, ordinal=3, prompt=new(where).prompt)
    assert isinstance(where.engine, StreamEngine)
    seeds = [sampling.seed for _, sampling in where.engine.requests] + [request_seed(where, other)]
    assert len(set(seeds)) == len(seeds) == 5
    assert all(0 <= s < 2**63 for s in seeds)


def test_a_passed_deadline_names_what_was_awaited_and_closes_sessions():
    tool = EchoTool(delay_seconds=30.0)
    where = stage("<code>x</code>", tool, deadline_seconds=0.2)
    with pytest.raises(EngineError, match=r"1 of 1 trajectories .* 0\.2 .*3/0"):
        asyncio.run(run_all([new(where)], where, step=0))
    assert tool.num_open == 0


def test_spans_of_a_whole_trajectory():
    done = run(stage("<think>a</think><code>x</code>\\boxed{1}"))
    kinds = done.tokens.kinds.tolist()
    counts = {kind: kinds.count(kind) for kind in SpanKind}
    assert counts[SpanKind.PROMPT] == 2
    assert counts[SpanKind.THINK] == len("<think>a</think>")
    assert counts[SpanKind.CODE] == len("<code>x</code>")
    assert counts[SpanKind.INTERPRETER] == len("<interpreter>1</interpreter>")
    assert counts[SpanKind.ANSWER] == len("\\boxed{1}") + 1


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_every_dialect_goes_round(dialect: Dialect):
    tool = EchoTool()
    said = [dialect.write_call("a", "x = 1"), dialect.write_call("b", "yy"), dialect.write_answer("c", "12")]
    done = run(stage("".join(said), tool, dialect.name))
    assert tool.calls == ["x = 1", "yy"]
    assert text(done) == "Q\n" + said[0] + dialect.wrap("5") + said[1] + dialect.wrap("2") + said[2]
    assert CharTokenizer().decode(done.tokens.ids[done.tokens.trainable].tolist()) == "".join(said)
    assert (done.stop_reason, done.faults) == (StopReason.ANSWER, ())


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 13, 21, 34])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_segments_of_any_size_change_nothing_in_any_dialect(dialect: Dialect, bound: int):
    script = dialect.write_call("a", "x = 1") + dialect.write_call("b", "yy") + dialect.write_answer("c", "12")
    whole = run(stage(script, dialect=dialect.name))
    where = stage(script, dialect=dialect.name, segment_sampled_tokens=bound, max_segments=1000)
    parts = new(where)
    for step in range(1000):
        if parts.is_finished:
            break
        run(where, parts, step=step)
    assert (parts.stop_reason, parts.num_tool_calls, parts.faults) == (StopReason.ANSWER, 2, ())
    if dialect.name == "markdown":  # a fence that a bound cuts from the end of its line is closed all the same
        assert text(parts).replace("\n", "") == text(whole).replace("\n", "")
        return
    assert parts.tokens.ids.tolist() == whole.tokens.ids.tolist()
    assert parts.tokens.kinds.tolist() == whole.tokens.kinds.tolist()


def test_the_number_of_calls_that_cannot_be_run_is_a_setting():
    done = run(stage("<code></code>" * 9, max_invalid_calls=5))
    assert (done.stop_reason, len(done.turns)) == (StopReason.INVALID_LIMIT, 5)
    assert done.faults == ("empty_program",) * 5


def test_a_call_that_can_be_run_starts_the_count_again():
    done = run(stage("<code></code><code></code><code>x</code>" * 2 + "\\boxed{1}", max_invalid_calls=3))
    assert (done.stop_reason, done.num_tool_calls) == (StopReason.ANSWER, 2)


def test_a_malformed_call_is_answered_and_not_run():
    tool = EchoTool()
    done = run(stage("<tool_call>{x}</tool_call>\\boxed{1}", tool, "tool_call"))
    assert (tool.calls, done.num_tool_calls, done.stop_reason) == ([], 0, StopReason.ANSWER)
    assert "[the call w" in text(done)
    assert done.faults == ("malformed_call",)
    assert not done.turns[0].tokens.trainable.all()


@dataclass
class FragileTool(EchoTool):
    """Its session is lost behind every program that says "die"."""

    lost: set[str] = field(default_factory=set)
    sessions: list[str] = field(default_factory=list)

    async def run(self, call: ToolCall, session: str) -> ToolResult:
        self.sessions.append(session)
        if session in self.lost:
            return ToolResult(status=ToolStatus.SESSION_LOST)
        if call.source == "die":
            self.lost.add(session)
        return await super().run(call, session)

    async def open(self, *, seed: int) -> str:
        await super().open(seed=seed)
        return f"s{len(self.sessions)}"


def test_a_program_that_ends_its_session_does_not_end_the_trajectory():
    tool = FragileTool()
    done = run(stage("<code>die</code><code>b</code>\\boxed{1}", tool))
    assert [turn.result.status for turn in done.turns if turn.result] == [ToolStatus.OK, ToolStatus.OK]
    assert tool.calls == ["die", "b"]
    assert tool.num_open == 0


def test_earlier_programs_run_again_over_a_lost_session():
    tool = FragileTool()
    where = stage(
        "<code>die</code><code>b</code><code>c</code>\\boxed{1}", tool, segment_tool_calls=2, max_tool_calls=9
    )
    parked = run(where)
    run(where, parked, step=1)
    assert tool.calls == ["die", "b", "die", "b", "c"]
    assert (parked.stop_reason, tool.num_open) == (StopReason.ANSWER, 0)


def test_marks_that_mean_nothing_pause_a_turn_only_so_often():
    tool = EchoTool()
    where = stage(
        "<code>x = '" + "<interpreter>" * 100 + "'</code> dropped",
        tool,
        max_sampled_tokens=9000,
        max_context_tokens=9000,
    )
    done = run(where)
    assert isinstance(where.engine, StreamEngine)
    assert len(where.engine.requests) == MAX_PAUSES_IN_A_ROW + 2
    assert where.engine.requests[MAX_PAUSES_IN_A_ROW][1].stop == ()
    assert where.engine.requests[MAX_PAUSES_IN_A_ROW + 1][1].stop == where.agent.stop
    assert tool.calls == ["x = '" + "<interpreter>" * 100 + "'"]
    assert "dropped" not in text(done)
