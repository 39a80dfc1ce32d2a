"""Demonstrations are run for real and read by the agent that will speak."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest

from agentmath.agents.single import SingleAgent
from agentmath.config.prompt import PromptSection
from agentmath.core.types import Demonstration, Task, ToolCall, ToolResult, ToolStatus
from agentmath.formats.dialects import DIALECTS
from agentmath.orchestration.demonstrations import render
from characters import CharTokenizer


@dataclass
class Shouting:
    """Prints the program in capitals; "fail" fails."""

    name: str = "code"
    num_open: int = 0

    async def open(self, *, seed: int) -> str:
        self.num_open += 1
        return "s"

    async def run(self, call: ToolCall, session: str) -> ToolResult:
        if call.source == "fail":
            return ToolResult(status=ToolStatus.EXCEPTION, error="ValueError: no")
        return ToolResult(status=ToolStatus.OK, stdout=call.source.upper() + "\n")

    async def close(self, session: str) -> None:
        self.num_open -= 1


TASK = Task(id="t7", question="Q", answer="1")
TOKENIZER = CharTokenizer()
AGENT = SingleAgent(tokenizer=TOKENIZER, section=PromptSection(chat=False), max_tool_output_tokens=20)


def rendered(*turns: tuple[str, ...], max_tokens: int = 1000):
    tool = Shouting()
    made = [Demonstration(task=TASK, turns=t) for t in turns]
    result = asyncio.run(render(made, AGENT, tool, TOKENIZER, max_tokens=max_tokens))
    assert tool.num_open == 0
    return result


def test_outputs_are_the_programs_own_and_never_trained():
    result = rendered(("<think>x</think><code>ab</code>", "\\boxed{1}"))
    (sample,) = result.samples
    assert TOKENIZER.decode(sample.ids.tolist()) == (
        "Q\n<think>x</think><code>ab</code><interpreter>AB</interpreter>\\boxed{1}"
    )
    assert TOKENIZER.decode(sample.ids[sample.trainable].tolist()) == "<think>x</think><code>ab</code>\\boxed{1}"
    assert sample.ids[-1] == 0
    assert sample.trainable[-1]
    assert (sample.key, sample.advantage, sample.policy) == ("t7", 1.0, "policy")
    assert np.isnan(sample.behaviour_logprobs).all()


def test_what_cannot_be_used_is_dropped_and_counted():
    result = rendered(
        ("<code>fail</code>", "\\boxed{1}"),
        ("\\boxed{1}",),
        ("no program here", "\\boxed{1}"),
        ("<code>a</code>", "<code>b</code>"),
        max_tokens=40,
    )
    assert len(result.samples) == 1
    assert result.dropped == {"program ended with exception": 1, "read differently by the agent": 2}


def test_demonstrations_longer_than_the_context_are_dropped():
    assert rendered(("x" * 50,), max_tokens=52).dropped == {"longer than 52 tokens": 1}
    assert len(rendered(("x" * 50,), max_tokens=53).samples) == 1


def test_order_is_kept():
    result = rendered(("<code>b</code>", "\\boxed{1}"), ("\\boxed{2}",), ("<code>c</code>", "\\boxed{3}"))
    ends = [TOKENIZER.decode(s.ids.tolist())[-9:] for s in result.samples]
    assert ends == ["\\boxed{1}", "\\boxed{2}", "\\boxed{3}"]


def test_exactly_the_spoken_tokens_are_targets():
    (sample,) = rendered(("<code>a</code>", "\\boxed{1}")).samples
    assert sample.trainable.sum() == len("<code>a</code>") + len("\\boxed{1}") + 1


@pytest.mark.parametrize("name", DIALECTS)
def test_demonstrations_are_rendered_in_the_dialect(name: str):
    dialect = DIALECTS[name]
    section = PromptSection.model_validate({"chat": False, "dialect": name})
    agent = SingleAgent(tokenizer=TOKENIZER, section=section, max_tool_output_tokens=20)
    turns = (dialect.write_call("x", "ab"), dialect.write_answer("", "1"))
    made = [Demonstration(task=TASK, turns=turns)]
    result = asyncio.run(render(made, agent, Shouting(), TOKENIZER, max_tokens=1000))
    (sample,) = result.samples
    assert TOKENIZER.decode(sample.ids.tolist()) == "Q\n" + turns[0] + dialect.wrap("AB") + turns[1]
    assert TOKENIZER.decode(sample.ids[sample.trainable].tolist()) == "".join(turns)
