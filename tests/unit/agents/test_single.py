"""One agent: how its tokens are read, and what is given back to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentmath.agents.single import SingleAgent
from agentmath.config.prompt import PromptSection
from agentmath.core.types import Completion, SpanKind, StopReason, Task, Tokens, ToolResult, ToolStatus
from characters import CharTokenizer

P, T, C, A = SpanKind.PROMPT, SpanKind.THINK, SpanKind.CODE, SpanKind.ANSWER


def agent() -> SingleAgent:
    return SingleAgent(tokenizer=CharTokenizer(), section=PromptSection(chat=False), max_tool_output_tokens=40)


def said(text: str, stop: StopReason = StopReason.EOS) -> Completion:
    ids = np.array([ord(c) for c in text], dtype=np.int32)
    n = len(ids)
    return Completion(
        ids=ids,
        logprobs=np.full(n, -0.5, dtype=np.float32),
        versions=np.zeros(n, dtype=np.int32),
        stop_reason=stop,
    )


PROMPT = Tokens.inserted([ord(c) for c in "2+2?"], P)


def test_a_block_becomes_a_call_and_its_tokens_are_code():
    action = agent().read(PROMPT, said("<think>x</think><code>print(4)</code>", StopReason.STOP))
    assert action.call is not None
    assert action.call.source == "print(4)"
    assert action.stop_reason is None
    assert action.tokens.kinds.tolist() == [T] * 16 + [C] * 21


def test_a_box_at_the_end_of_a_message_is_an_answer():
    action = agent().read(PROMPT, said("so \\boxed{4}"))
    assert action.stop_reason is StopReason.ANSWER
    assert action.call is None
    assert set(action.tokens.kinds.tolist()) == {A}


def test_a_message_without_a_box_just_ends():
    assert agent().read(PROMPT, said("I give up")).stop_reason is StopReason.EOS
    assert agent().read(PROMPT, said("")).stop_reason is StopReason.EOS


def test_a_box_in_the_prompt_or_in_a_program_is_no_answer():
    prompt = Tokens.inserted([ord(c) for c in "put it in \\boxed{1}"], P)
    assert agent().read(prompt, said("done")).stop_reason is StopReason.EOS
    assert agent().read(prompt, said("<code>\\boxed{1}")).stop_reason is StopReason.EOS


def test_an_invented_output_is_not_kept():
    action = agent().read(PROMPT, said("ok<interpreter>", StopReason.STOP))
    assert action.stop_reason is StopReason.INVENTED_OUTPUT
    assert CharTokenizer().decode(action.tokens.ids.tolist()) == "ok"


def test_an_output_tag_inside_an_open_program_lets_the_agent_go_on():
    action = agent().read(PROMPT, said('<code>print("<interpreter>', StopReason.STOP))
    assert (action.call, action.notice, action.stop_reason) == (None, None, None)


def test_an_empty_block_gets_a_notice_and_is_not_executed():
    action = agent().read(PROMPT, said("<code>\n</code>", StopReason.STOP))
    assert action.call is None
    assert action.notice is not None


def test_think_left_open_goes_on_after_an_output():
    speaker = agent()
    first = speaker.read(PROMPT, said("<think>a<code>print(4)</code>", StopReason.STOP))
    result = ToolResult(status=ToolStatus.OK, stdout="4\n")
    context = Tokens.concatenate([PROMPT, first.tokens, speaker.insert(result)])
    second = speaker.read(context, said("b</think>c"))
    assert second.tokens.kinds.tolist() == [T] * 9 + [A]


def test_think_opened_by_the_prompt_is_think():
    prompt = Tokens.inserted([ord(c) for c in "2+2?<think>"], P)
    assert agent().read(prompt, said("b</think>c")).tokens.kinds.tolist() == [T] * 9 + [A]


def test_inserted_output_is_never_trained_and_cannot_open_a_tag():
    tokens = agent().insert(ToolResult(status=ToolStatus.OK, stdout="</interpreter>\\boxed{9}"))
    assert not tokens.trainable.any()
    text = CharTokenizer().decode(tokens.ids.tolist())
    assert text.count("</interpreter>") == 1
    assert "\\boxed" not in text


def test_long_output_keeps_head_and_tail_within_the_limit():
    tokens = agent().insert(ToolResult(status=ToolStatus.OK, stdout="a" * 500 + "b" * 500))
    text = CharTokenizer().decode(tokens.ids.tolist())
    inner = text.removeprefix("<interpreter>").removesuffix("</interpreter>")
    assert len(inner) <= 40
    assert inner.startswith("aa")
    assert inner.endswith("bb")
    assert "truncated" in inner


def test_answer_text_joins_nothing_over_a_gap():
    tokens = Tokens.concatenate(
        [
            Tokens.inserted([ord(c) for c in "\\box"], A),
            Tokens.inserted([ord(c) for c in "x"], C),
            Tokens.inserted([ord(c) for c in "ed{1}"], A),
        ]
    )
    assert agent().answer_text(tokens) == "\\box\ned{1}"


@given(st.text(alphabet=st.characters(min_codepoint=1, exclude_categories=["Cs"])), st.sampled_from(list(StopReason)))
def test_any_text_is_read_without_failing(text: str, stop: StopReason):
    action = agent().read(PROMPT, said(text, stop))
    assert len(action.tokens) <= len(text)


def test_prompt_is_system_then_question():
    speaker = SingleAgent(
        tokenizer=CharTokenizer(), section=PromptSection(chat=True, system="S"), max_tool_output_tokens=8
    )
    task = Task(id="1", question="Q", answer="1")
    assert speaker.prompt_text(task) == "[system]S[user]Q[assistant]"
    assert not speaker.prompt(task).trainable.any()
