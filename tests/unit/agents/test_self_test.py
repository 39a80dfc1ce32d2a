"""Prompt against parser, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentmath.agents.self_test import check_agent, check_prompt
from agentmath.agents.single import SingleAgent
from agentmath.config.prompt import PromptSection
from agentmath.core.errors import ConfigError, FormatError
from agentmath.core.interfaces import Tokenizer
from agentmath.engines.byte_tokenizer import ByteTokenizer
from agentmath.formats.dialects import DIALECTS
from characters import CharTokenizer


def agent(name: str, tokenizer: Tokenizer | None = None, **prompt: object) -> SingleAgent:
    section = PromptSection.model_validate({"chat": False, "dialect": name, **prompt})
    return SingleAgent(tokenizer=tokenizer or CharTokenizer(), section=section, max_tool_output_tokens=8)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("instructions", [False, True])
def test_every_dialect_agrees_with_itself(name: str, instructions: bool):
    check_agent(agent(name, instructions=instructions))
    check_agent(agent(name, ByteTokenizer(), instructions=instructions))


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("other", DIALECTS)
def test_instructions_of_another_dialect_are_refused(name: str, other: str):
    if name == other:
        return
    with pytest.raises(ConfigError) as caught:
        check_agent(agent(name, system=DIALECTS[other].instructions))
    for words in (DIALECTS[other].call_open, f"'{name}'", DIALECTS[name].call_open, "prompt.system"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "system", "asked"),
    [
        ("agentmath", "Finish with Answer: x.", "Answer:"),
        ("agentmath", "Put the result after ####", "####"),
        ("markdown", "Write <answer>x</answer> at the end.", "<answer>"),
        ("tool_call", 'End with "The final answer is X".', "the final answer is ANSWER"),
    ],
)
def test_an_answer_that_the_dialect_does_not_read_is_refused(name: str, system: str, asked: str):
    with pytest.raises(ConfigError) as caught:
        check_agent(agent(name, system=system))
    assert f"{asked!r}" in str(caught.value)
    assert DIALECTS[name].answer_form in str(caught.value)


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("agentmath", ""),
        ("agentmath", "Be exact. If the answer is a fraction, reduce it."),
        ("agentmath", "Put your final answer within \\boxed{}. Write Answer: before it."),
        ("agentmath", "Use <code>, never ```python."),
        ("markdown", "Use ```python fences and <code> nowhere."),
        ("dual_agent", "At the end say: The final answer is ANSWER"),
        ("dual_agent", "Put the answer into \\boxed{}."),
    ],
)
def test_what_contradicts_nothing_passes(name: str, system: str):
    check_prompt(system, DIALECTS[name])


def test_a_chat_template_is_part_of_the_prompt():
    class Templated(CharTokenizer):
        def render_chat(self, messages: object, *, add_generation_prompt: bool) -> str:
            return "Give the answer after ####."

    with pytest.raises(ConfigError, match="####"):
        check_agent(agent("agentmath", Templated(), chat=True))


@pytest.mark.parametrize(("lost", "says"), [("*", "the program"), ("\\", "the answer")])
def test_a_tokenizer_that_loses_signs_is_refused(lost: str, says: str):
    class Losing(CharTokenizer):
        def decode(self, ids: Sequence[int]) -> str:
            return super().decode(ids).replace(lost, "")

    with pytest.raises(FormatError, match=f"with this tokenizer {says} '.*' .*'agentmath' is read as"):
        check_agent(agent("agentmath", Losing()))
