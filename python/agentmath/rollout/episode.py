"""One trajectory, one pass: generate, pause, execute, resume.

    engine.generate -> agent.read -> tool.run -> agent.insert -> Turn appended -> engine.generate -> ...

A pass ends when the trajectory is finished or when a segment bound is reached; then it is parked and goes on in a later
step with newer weights. An infrastructure failure ends it with StopReason.ERROR; it is never scored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agentmath.config.rollout import RolloutSection
from agentmath.core.errors import EngineError, SandboxError
from agentmath.core.interfaces import Action, Agent, RolloutEngine, Tool
from agentmath.core.seeds import derive_seed
from agentmath.core.types import (
    NO_VERSION,
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
from agentmath.rollout.scheduling import Scheduler

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


@dataclass(kw_only=True)
class Pass:
    """Counters of the pass in progress."""

    session: int
    """The engine's key of this trajectory."""
    tool_seed: int
    scheduler: Scheduler
    key: int
    """The scheduler's key of this trajectory."""
    tool_session: str | None = None
    num_sampled_tokens: int = 0
    num_tool_calls: int = 0
    num_invalid_calls: int = 0
    """Calls in a row that could not be run."""
    num_pauses: int = 0
    """Stops in a row at which nothing was to be done."""


def request_seed(stage: Stage, trajectory: Trajectory) -> int:
    """63-bit seed of the next request: a function of who it is and how far it got, never of when it ran."""
    return derive_seed(*_name(stage, trajectory), trajectory.num_sampled_tokens)


def tool_seed(stage: Stage, trajectory: Trajectory) -> int:
    """63-bit seed of the trajectory's tool session: programs that are run again draw the same numbers again."""
    return derive_seed(*_name(stage, trajectory), "tool")


def _name(stage: Stage, trajectory: Trajectory) -> tuple[int, str, int, int]:
    return stage.seed, stage.purpose, trajectory.ordinal, trajectory.sample_index


def engine_session(trajectory: Trajectory) -> int:
    """The engine's key of a trajectory; sorting by it sorts by task, then by sample."""
    return (trajectory.ordinal << 16) | trajectory.sample_index


async def run_pass(trajectory: Trajectory, stage: Stage, scheduler: Scheduler, *, key: int, step: int) -> None:
    """Carry the trajectory, which the scheduler knows by `key` and counts as running, on until it is finished or its
    pass is over."""
    first_turn = len(trajectory.turns)
    state = Pass(
        session=engine_session(trajectory), tool_seed=tool_seed(stage, trajectory), scheduler=scheduler, key=key
    )
    trajectory.stop_reason = None
    try:
        while trajectory.stop_reason is None:
            await _take_turn(trajectory, stage, state)
    except (EngineError, SandboxError) as error:
        trajectory.stop_reason, trajectory.error = StopReason.ERROR, str(error)
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


async def _take_turn(trajectory: Trajectory, stage: Stage, state: Pass) -> None:
    """Let the agent speak once, carry out its call, and append the turn; or say why it may not speak."""
    context, num_sampled = trajectory.tokens, trajectory.num_sampled_tokens
    num_context = len(context)
    room, is_pass_bound = state.scheduler.ask(state.key, num_context)
    if not room:
        trajectory.stop_reason = StopReason.SEGMENT if is_pass_bound else StopReason.LENGTH
        return
    sampling = Sampling(
        max_new_tokens=room,
        temperature=stage.temperature,
        stop=stage.agent.stop if state.num_pauses < MAX_PAUSES_IN_A_ROW else (),
        seed=request_seed(stage, trajectory),
    )
    completion = await stage.engine.generate(context.ids.tolist(), sampling, session=state.session)
    state.num_sampled_tokens += len(completion.ids)
    if completion.stop_reason is StopReason.ABORTED:
        # Interrupted: what was sampled is kept as if the pass had been so long.
        completion, is_pass_bound = replace(completion, stop_reason=StopReason.LENGTH), True
        if not len(completion.ids):
            trajectory.stop_reason = StopReason.SEGMENT
            return
    if trajectory.turns and _is_open(trajectory.turns[-1]):
        completion = _join(trajectory.turns.pop(), completion)
        context = trajectory.tokens
    action = stage.agent.read(context, completion)
    stop = action.stop_reason
    is_pause = action.call is None and action.notice is None and stop is None
    state.num_pauses = state.num_pauses + 1 if is_pause else 0
    if stop is StopReason.LENGTH and is_pass_bound:
        stop = StopReason.SEGMENT
    if action.call is not None and not state.scheduler.may_call(state.key):
        stop = StopReason.MAX_TOOL_CALLS
    result = await _execute(action, trajectory, stage, state) if action.call is not None and stop is None else None
    turn_stop = stop or completion.stop_reason
    trajectory.turns.append(_turn(stage.agent, action, result, turn_stop))
    _tell(trajectory, state, num_sampled=num_sampled, num_context=num_context)
    trajectory.stop_reason = stop or _after_notice(action, stage.section, state)


def _tell(trajectory: Trajectory, state: Pass, *, num_sampled: int, num_context: int) -> None:
    """Report a turn to the scheduler: tokens that were kept, and those that were inserted behind them."""
    sampled = max(trajectory.num_sampled_tokens - num_sampled, 0)
    tokens = trajectory.turns[-1].tokens
    oldest = int(tokens.versions[tokens.trainable].min()) if sampled else NO_VERSION
    state.scheduler.sampled(state.key, sampled, oldest)
    state.scheduler.inserted(state.key, max(trajectory.num_context_tokens - num_context - sampled, 0))


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


async def _execute(action: Action, trajectory: Trajectory, stage: Stage, state: Pass) -> ToolResult:
    assert action.call is not None
    state.scheduler.call_began(state.key)
    if state.tool_session is None:
        await _open_tool(trajectory, stage.tool, state)
    result = await _run(action.call, stage.tool, state)
    state.scheduler.call_ended(state.key)
    state.num_tool_calls += 1
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


def _after_notice(action: Action, section: RolloutSection, state: Pass) -> StopReason | None:
    """End a trajectory that writes nothing but calls that cannot be run."""
    state.num_invalid_calls = state.num_invalid_calls + 1 if action.notice is not None else 0
    return StopReason.INVALID_LIMIT if state.num_invalid_calls >= section.max_invalid_calls else None
