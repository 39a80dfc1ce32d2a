"""One trajectory, one pass: generate, pause, execute, resume.

    engine.generate -> agent.read -> tool.run -> agent.insert -> Turn appended -> engine.generate -> ...

Everything that happens is reported to the scheduler, whose verdicts say what comes next. A pass ends when the
trajectory is finished, when a bound of the pass is reached or when the step has all it needs; then it is parked and
goes on in a later step with newer weights. An infrastructure failure ends it with StopReason.ERROR; it is never scored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from agentmath._C import rollout
from agentmath.config.rollout import RolloutSection
from agentmath.core.errors import EngineError, SandboxError
from agentmath.core.interfaces import Action, Agent, RolloutEngine, Tool
from agentmath.core.seeds import derive_seed
from agentmath.core.types import (
    Completion,
    Sampling,
    Segment,
    SpanKind,
    StopReason,
    Tokens,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)
from agentmath.rollout.scheduler import Lengths, Scheduler, stop_reason, trajectory_id

MAX_PAUSES_IN_A_ROW = 16
"""Stops at marks that turn out to mean nothing, as in a string of a program; then the model speaks on to its end, as
each pause reads the whole turn again."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the episodes of one collection share: who speaks, who generates, who executes, and the budgets."""

    agent: Agent
    engine: RolloutEngine
    tool: Tool
    section: RolloutSection
    seed: int
    purpose: str
    """Part of every request's seed, so that evaluation and training draw different numbers."""
    temperature: float
    rejoin: Callable[[int], Awaitable[None]] | None = None
    """Waits until what an engine session does after a tool call no longer depends on how long that took; None where
    the engine makes no such promise."""
    top_p: float = 1.0
    """Less than 1 in evaluations only."""


@dataclass(kw_only=True)
class Pass:
    """A pass in progress."""

    trajectory: Trajectory
    stage: Stage
    scheduler: Scheduler
    verdict: rollout.Verdict
    """What the scheduler said last."""
    session: int
    """The engine's key of this trajectory."""
    tool_seed: int
    tool_session: str | None = None
    num_sampled_tokens: int = 0
    num_tool_calls: int = 0
    num_invalid_calls: int = 0
    """Calls in a row that could not be run."""
    num_pauses: int = 0
    """Stops in a row at which nothing was to be done."""

    def hear(self, verdict: rollout.Verdict, said: StopReason | None = None) -> StopReason | None:
        """Take a verdict; why the trajectory stops, if it does. `said` is the end that its own words came to."""
        self.verdict = verdict
        return stop_reason(verdict.reason, verdict.action, said=said)


def request_seed(stage: Stage, trajectory: Trajectory) -> int:
    """63-bit seed of the next request: a function of who it is and how far it got, never of when it ran."""
    return derive_seed(*_name(stage, trajectory), trajectory.num_sampled_tokens)


def tool_seed(stage: Stage, trajectory: Trajectory) -> int:
    """63-bit seed of the trajectory's tool session: programs that are run again draw the same numbers again."""
    return derive_seed(*_name(stage, trajectory), "tool")


def _name(stage: Stage, trajectory: Trajectory) -> tuple[int, str, int, int]:
    return stage.seed, stage.purpose, trajectory.ordinal, trajectory.sample_index


def engine_session(trajectory: Trajectory) -> int:
    """The engine's key of a trajectory."""
    return trajectory_id(trajectory.ordinal, trajectory.sample_index)


async def run_pass(
    trajectory: Trajectory, stage: Stage, scheduler: Scheduler, verdict: rollout.Verdict, *, step: int
) -> None:
    """Carry the trajectory on, from the verdict that let it begin until one that does not let it go on."""
    first_turn = len(trajectory.turns)
    state = Pass(
        trajectory=trajectory,
        stage=stage,
        scheduler=scheduler,
        verdict=verdict,
        session=engine_session(trajectory),
        tool_seed=tool_seed(stage, trajectory),
    )
    trajectory.stop_reason = None
    try:
        while trajectory.stop_reason is None:
            await _take_turn(state)
    except (EngineError, SandboxError) as error:
        left = Lengths.of(trajectory.prompt, trajectory.turns)
        trajectory.stop_reason = state.hear(scheduler.lost(state.verdict.ticket, left))
        if trajectory.stop_reason is StopReason.ERROR:
            trajectory.error = str(error)
    finally:
        stage.engine.close_session(state.session)
        if state.tool_session is not None:
            await stage.tool.close(state.tool_session)
    trajectory.segments.append(
        Segment(
            first_turn=min(first_turn, len(trajectory.turns)),
            num_turns=max(len(trajectory.turns) - first_turn, 0),
            step=step,
            num_sampled_tokens=state.num_sampled_tokens,
            num_tool_calls=state.num_tool_calls,
        )
    )


async def _open_tool(trajectory: Trajectory, tool: Tool, state: Pass) -> None:
    """A session in which the programs of earlier passes were run again, so that their variables are there."""
    state.tool_session = await tool.open(seed=state.tool_seed)
    for turn in trajectory.turns:
        if turn.call is not None and turn.result is not None:
            await _run(turn.call, tool, state)


async def _run(call: ToolCall, tool: Tool, state: Pass) -> ToolResult:
    """Run one call; a session that an earlier program ended is replaced by a fresh one, without its variables.

    Raises SandboxError when the sandbox, not the program, failed.
    """
    assert state.tool_session is not None
    result = await tool.run(call, state.tool_session)
    if result.status is ToolStatus.SESSION_LOST:
        await tool.close(state.tool_session)
        state.tool_session = await tool.open(seed=state.tool_seed)
        result = await tool.run(call, state.tool_session)
    if result.is_infrastructure_failure:
        raise SandboxError(f"a tool call ended with {result.status.value}: {result.error or 'no detail given'}")
    return result


async def _take_turn(state: Pass) -> None:
    """Let the agent speak once, carry out its call, append the turn, and hear how the trajectory goes on."""
    trajectory, stage = state.trajectory, state.stage
    is_open = bool(trajectory.turns) and _is_open(trajectory.turns[-1])
    before = trajectory.turns[:-1] if is_open else trajectory.turns[:]
    sampling = Sampling(
        max_new_tokens=state.verdict.max_new_tokens,
        temperature=stage.temperature,
        top_p=stage.top_p,
        stop=stage.agent.stop if state.num_pauses < MAX_PAUSES_IN_A_ROW else (),
        seed=request_seed(stage, trajectory),
    )
    sampled = await stage.engine.generate(trajectory.tokens.ids.tolist(), sampling, session=state.session)
    state.num_sampled_tokens += len(sampled.ids)
    completion = _join(trajectory.turns[-1], sampled) if is_open else sampled
    context = Tokens.concatenate([trajectory.prompt, *(t.tokens for t in before)])
    action = stage.agent.read(context, completion)
    take = _take_call if action.call is not None else _take_words
    turn, stop = await take(state, action, Lengths.of(trajectory.prompt, before), sampled)
    has_words = len(turn.tokens) > 0 or turn.stop_reason is not StopReason.SEGMENT
    trajectory.turns[:] = [*before, turn] if has_words else before
    if turn.result is not None:
        lengths = Lengths.of(trajectory.prompt, trajectory.turns)
        stop = state.hear(state.scheduler.answered(state.verdict.ticket, lengths))
    trajectory.stop_reason = stop


async def _take_call(
    state: Pass, action: Action, before: Lengths, sampled: Completion
) -> tuple[Turn, StopReason | None]:
    """Ask whether the call may be made, and make it. Returns the turn, and why the trajectory stops if it does."""
    state.num_pauses = state.num_invalid_calls = 0
    lengths = _with(before, action.tokens)
    stop = state.hear(state.scheduler.generated(state.verdict.ticket, lengths, sampled, rollout.Outcome.CALL))
    result = await _execute(state, action) if state.verdict.action is rollout.Action.CALL else None
    return _turn(state.stage.agent, action, result, stop or sampled.stop_reason), stop


async def _take_words(
    state: Pass, action: Action, before: Lengths, sampled: Completion
) -> tuple[Turn, StopReason | None]:
    """Report words that call for no tool. Returns the turn, and why the trajectory stops if it does."""
    end, limit = action.stop_reason, state.stage.section.max_invalid_calls
    is_pause = action.notice is None and end is None
    state.num_pauses = state.num_pauses + 1 if is_pause else 0
    state.num_invalid_calls = state.num_invalid_calls + 1 if action.notice is not None else 0
    said = end or (StopReason.INVALID_LIMIT if state.num_invalid_calls >= limit else None)
    is_cut = end is StopReason.ABORTED or (end is StopReason.LENGTH and state.verdict.ends_pass)
    turn = _turn(state.stage.agent, action, None, StopReason.SEGMENT if is_cut else end or sampled.stop_reason)
    lengths, outcome = _with(before, turn.tokens), _OUTCOMES.get(said, rollout.Outcome.FINISHED)
    return turn, state.hear(state.scheduler.generated(state.verdict.ticket, lengths, sampled, outcome), said)


def _with(before: Lengths, tokens: Tokens) -> Lengths:
    return Lengths(before.context + len(tokens), before.sampled + int(np.count_nonzero(tokens.trainable)))


_OUTCOMES: dict[StopReason | None, rollout.Outcome] = {
    None: rollout.Outcome.CONTINUE,
    StopReason.LENGTH: rollout.Outcome.LENGTH,
    StopReason.ABORTED: rollout.Outcome.ABORTED,
}
"""What is reported of words by how they end; all other ends are the model's own."""


def _is_open(turn: Turn) -> bool:
    """Whether the turn ended in mid-sentence, at a segment bound or at a tag inside a program: it goes on."""
    has_output = bool((turn.tokens.kinds == SpanKind.INTERPRETER).any())
    return turn.stop_reason in (StopReason.SEGMENT, StopReason.STOP) and not has_output


def _join(cut: Turn, completion: Completion) -> Completion:
    """One completion out of an open turn and its continuation."""
    return Completion(
        ids=np.concatenate([cut.tokens.ids, completion.ids]),
        logprobs=np.concatenate([cut.tokens.logprobs, completion.logprobs]),
        versions=np.concatenate([cut.tokens.versions, completion.versions]),
        stop_reason=completion.stop_reason,
        stop_text=completion.stop_text,
    )


async def _execute(state: Pass, action: Action) -> ToolResult:
    assert action.call is not None
    if state.tool_session is None:
        await _open_tool(state.trajectory, state.stage.tool, state)
    result = await _run(action.call, state.stage.tool, state)
    state.num_tool_calls += 1
    if state.stage.rejoin is not None:
        await state.stage.rejoin(state.session)
    return result


def _turn(agent: Agent, action: Action, result: ToolResult | None, stop_reason: StopReason) -> Turn:
    inserted = result if result is not None else action.notice
    parts = [action.tokens] if inserted is None else [action.tokens, agent.insert(inserted)]
    return Turn(
        role=agent.role,
        agent=agent.name,
        tokens=Tokens.concatenate(parts),
        stop_reason=stop_reason,
        call=action.call,
        result=result,
        faults=action.faults,
    )
