"""One agent: how its tokens are read, and what is given back to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.agents.single import SingleAgent
from agentmath.config.prompt import PromptSection
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import Completion, SpanKind, StopReason, Task, Tokens, ToolResult, ToolStatus
from agentmath.formats.answer import boxed_answer
from agentmath.formats.dialects import DIALECTS
from characters import CharTokenizer
from pieces_of_text import PieceTokenizer

P, T, C, A = SpanKind.PROMPT, SpanKind.THINK, SpanKind.CODE, SpanKind.ANSWER


def agent(dialect: str = "agentmath", tokenizer: Tokenizer | None = None) -> SingleAgent:
    section = PromptSection.model_validate({"chat": False, "dialect": dialect})
    return SingleAgent(tokenizer=tokenizer or CharTokenizer(), section=section, max_tool_output_tokens=40)


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


MARKS = sorted({tag for d in DIALECTS.values() for tag in (*d.tags, *d.stop, d.output_open, d.output_close)})
BITS = st.sampled_from([*MARKS, "print(1)", "a", "\n", "<", "\\boxed{1}", '{"name": "code"}', "Code Agent:"])


@pytest.mark.parametrize("name", DIALECTS)
@given(st.lists(BITS, max_size=12).map("".join) | st.text(max_size=30), st.randoms(), st.booleans())
def test_masks_hold_for_any_text_split_into_any_tokens(name: str, text: str, random: Random, is_ended: bool):
    pieces: list[str] = []
    while text:
        size = random.randint(0, 9)
        pieces, text = [*pieces, text[:size]], text[size:]
    tokenizer = PieceTokenizer()
    prompt = Tokens.inserted(tokenizer.ids_of("2+2?"), P)
    ids = tokenizer.ids_of(pieces) + [0] * is_ended
    completion = replace(Completion.unsampled(ids, StopReason.EOS), logprobs=np.arange(len(ids), dtype=np.float32))
    speaker = agent(name, tokenizer)
    action = speaker.read(prompt, completion)

    kept = len(action.tokens)
    assert action.tokens.ids.tolist() == ids[:kept]
    assert action.tokens.logprobs.tolist() == list(range(kept))
    assert action.tokens.trainable.all()
    reading = DIALECTS[name].read("".join(pieces), in_think=False)
    begins = [0, *accumulate(map(len, pieces))]
    end = begins[min(kept, len(pieces))]
    if reading.stop_reason is StopReason.INVENTED_OUTPUT:
        assert end <= reading.kept < begins[min(kept, len(pieces) - 1) + 1]
    else:
        assert end >= reading.kept
    if reading.kept < begins[-1]:
        assert all(begin < reading.kept for begin, piece in zip(begins[:kept], pieces, strict=False) if piece)
    inserted = speaker.insert("".join(pieces))
    assert not inserted.trainable.any()
    assert len(inserted) <= 40 + len(DIALECTS[name].output_open) + len(DIALECTS[name].output_close)


@pytest.mark.parametrize("name", DIALECTS)
def test_an_answer_without_a_box_is_graded_in_one(name: str):
    spoken = said(DIALECTS[name].write_answer("Easy.", "42"))
    speaker = agent(name)
    action = speaker.read(PROMPT, spoken)
    assert action.stop_reason is StopReason.ANSWER
    assert speaker.final_answer(action.tokens) == "42"
    assert boxed_answer(speaker.answer_text(action.tokens)) == "42"


@pytest.mark.parametrize("name", DIALECTS)
def test_the_end_of_a_message_is_no_text(name: str):
    class Shown(PieceTokenizer):
        def decode(self, ids: Sequence[int]) -> str:
            return "".join("<|end|>" if i == 0 else super(Shown, self).decode([i]) for i in ids)

    tokenizer = Shown()
    speaker = agent(name, tokenizer)
    prompt = Tokens.inserted(tokenizer.ids_of("2+2?"), P)
    call = DIALECTS[name].write_call("a", "print(1)")
    action = speaker.read(prompt, Completion.unsampled([*tokenizer.ids_of(call), 0], StopReason.EOS))
    assert action.call is not None
    assert 0 not in action.tokens.ids
    last = Completion.unsampled([*tokenizer.ids_of(DIALECTS[name].write_answer("", "7")), 0], StopReason.EOS)
    tokens = speaker.read(prompt, last).tokens
    assert tokens.ids[-1] == 0
    assert speaker.final_answer(tokens) == "7"


def test_a_think_tag_that_the_prompt_only_names_opens_nothing():
    prompt = Tokens.inserted([ord(c) for c in "Use <think> tags. 2+2?"], P)
    assert agent().read(prompt, said("b")).tokens.kinds.tolist() == [A]


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


@pytest.mark.parametrize("name", DIALECTS)
def test_the_dialects_instructions_are_added_where_the_recipe_asks_for_them(name: str):
    given_words = {"chat": False, "dialect": name, "instructions": True}
    task = Task(id="1", question="Q", answer="1")
    for system, begin in (("", ""), ("Be brief.", "Be brief.\n\n")):
        section = PromptSection.model_validate({**given_words, "system": system})
        speaker = SingleAgent(tokenizer=CharTokenizer(), section=section, max_tool_output_tokens=8)
        assert speaker.prompt_text(task) == f"{begin}{DIALECTS[name].instructions}\nQ\n"
