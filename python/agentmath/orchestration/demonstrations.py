"""Demonstrations become token streams: their programs are run for real, and the agent itself reads them.

What supervised training sees is built by the same functions as what reinforcement learning sees: the same prompt, the
same parser, the same insertion of outputs. A demonstration that the agent reads otherwise is dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentmath.core.interfaces import Agent, Tokenizer, Tool
from agentmath.core.seeds import derive_seed
from agentmath.core.types import (
    Completion,
    Demonstration,
    StopReason,
    Tokens,
    ToolStatus,
    TrainingSample,
)
from agentmath.formats.output import output_text

MAX_IN_FLIGHT = 256
"""Programs queued at the sandbox together; more would only wait there."""
READ_DIFFERENTLY = "read differently by the agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """Demonstrations that survived, as training samples, and why the others did not."""

    samples: list[TrainingSample]
    dropped: dict[str, int]


async def render(
    demonstrations: Sequence[Demonstration], agent: Agent, tool: Tool, tokenizer: Tokenizer, *, max_tokens: int
) -> Rendered:
    """Run every program, render every demonstration; order is kept."""
    gate = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def one(demonstration: Demonstration) -> TrainingSample | str:
        async with gate:
            completed = await _run_programs(demonstration, agent, tool, tokenizer)
        return completed if isinstance(completed, str) else _sample(completed, agent, tokenizer, max_tokens)

    outcomes = await asyncio.gather(*(one(d) for d in demonstrations))
    return Rendered(
        samples=[o for o in outcomes if isinstance(o, TrainingSample)],
        dropped=dict(Counter(o for o in outcomes if isinstance(o, str))),
    )


async def _run_programs(
    demonstration: Demonstration, agent: Agent, tool: Tool, tokenizer: Tokenizer
) -> Demonstration | str:
    """The demonstration with true outputs, or why it has none."""
    if len(demonstration.turns) == 1 or demonstration.outputs:
        return demonstration
    outputs: list[str] = []
    session = await tool.open(seed=derive_seed(demonstration.task.id))
    try:
        for turn in demonstration.turns[:-1]:
            ids = tokenizer.encode(turn, allow_special=True)
            call = agent.read(Tokens.concatenate([]), Completion.unsampled(ids, StopReason.STOP)).call
            if call is None:
                return READ_DIFFERENTLY
            result = await tool.run(call, session)
            if result.status is not ToolStatus.OK:
                return f"program ended with {result.status.value}"
            outputs.append(output_text(result))
    finally:
        await tool.close(session)
    return replace(demonstration, outputs=tuple(outputs))


def _sample(demonstration: Demonstration, agent: Agent, tokenizer: Tokenizer, max_tokens: int) -> TrainingSample | str:
    """The training sample of a completed demonstration, or why it is not one."""
    prompt = agent.prompt(demonstration.task)
    context = prompt
    last = len(demonstration.turns) - 1
    for index, turn in enumerate(demonstration.turns):
        ids = tokenizer.encode(turn, allow_special=True) + ([tokenizer.eos_ids[0]] if index == last else [])
        action = agent.read(context, Completion.unsampled(ids, StopReason.EOS if index == last else StopReason.STOP))
        if len(action.tokens) != len(ids) or (action.call is None) != (index == last):
            return READ_DIFFERENTLY
        context = Tokens.concatenate([context, action.tokens])
        if index < last:
            context = Tokens.concatenate([context, agent.insert(demonstration.outputs[index])])
    if len(context) > max_tokens:
        return f"longer than {max_tokens} tokens"
    return TrainingSample(
        policy=agent.policy,
        ids=context.ids,
        trainable=context.trainable,
        behaviour_logprobs=context.logprobs,
        versions=context.versions,
        advantage=1.0,
        key=demonstration.task.id,
    )
