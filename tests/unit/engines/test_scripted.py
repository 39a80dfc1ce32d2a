from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.scripted import ScriptedEngine


def say(box: Any, line: Any, context: str = "ab", *, eos: bool = True, **sampling: Any) -> Completion:
    tokenizer = box.LetterTokenizer(eos_ids=(box.EOS,))
    engine = ScriptedEngine({0: [line]}, tokenizer, logprob=-0.5, version=3)
    values: dict[str, Any] = {"max_new_tokens": 50} | sampling
    return box.run(engine.generate(tokenizer.encode(context, allow_special=True), Sampling(**values), session=0))


def test_a_line_is_said_and_ended(box: Any) -> None:
    done = say(box, "hi")
    assert done.ids.tolist() == [72, 73, box.EOS]
    assert done.logprobs.tolist() == [-0.5] * 3
    assert done.versions.tolist() == [3] * 3
    assert done.stop_reason is StopReason.EOS


def test_a_line_of_ids_ends_at_its_end_token(box: Any) -> None:
    assert say(box, [72, box.EOS, 73]).ids.tolist() == [72, box.EOS]


def test_a_line_is_cut_where_a_stop_text_is_complete(box: Any) -> None:
    done = say(box, "1</code>2", stop=("</code>",))
    assert box.LetterTokenizer().decode(done.ids) == "1</code>"
    assert (done.stop_reason, done.stop_text) == (StopReason.STOP, "</code>")


def test_a_stop_text_may_begin_in_the_context(box: Any) -> None:
    done = say(box, "de>2", context="1</co", stop=("</code>",))
    assert box.LetterTokenizer().decode(done.ids) == "de>"


def test_a_line_is_cut_at_the_limit(box: Any) -> None:
    done = say(box, "hello", max_new_tokens=2)
    assert (len(done.ids), done.stop_reason) == (2, StopReason.LENGTH)


def test_lines_are_said_in_turn_and_requests_are_kept(box: Any) -> None:
    engine = ScriptedEngine({4: ["a", "b"]}, box.LetterTokenizer(eos_ids=(box.EOS,)))

    async def three() -> list[int]:
        first = await engine.generate([5], Sampling(max_new_tokens=9), session=4)
        await engine.update_weights(1, None)
        second = await engine.generate([5, 6], Sampling(max_new_tokens=9), session=4)
        engine.close_session(4)
        assert set(second.versions) == {1}
        with pytest.raises(EngineError, match="no line"):
            await engine.generate([5], Sampling(max_new_tokens=9), session=4)
        return [int(first.ids[0]), int(second.ids[0])]

    assert box.run(three()) == [65, 66]
    assert [(session, length) for session, length, _ in engine.requests] == [(4, 1), (4, 2), (4, 1)]
    assert (engine.said, engine.ran_out) == ({4: [[65], [66]]}, {4})
    assert engine.closed == [4]


def test_a_context_without_room_is_refused(box: Any) -> None:
    engine = ScriptedEngine({0: ["a"]}, box.LetterTokenizer(), max_context_tokens=2)
    with pytest.raises(EngineError, match="2 of 2 tokens"):
        box.run(engine.generate([5, 6], Sampling(max_new_tokens=1), session=0))


def test_an_aborted_request_says_nothing(box: Any) -> None:
    engine = ScriptedEngine({0: ["a"]}, box.LetterTokenizer())

    async def abort() -> Completion:
        task = asyncio.create_task(engine.generate([5], Sampling(max_new_tokens=1), session=0))
        await asyncio.sleep(0)
        await engine.abort(0)
        return await task

    done = box.run(abort())
    assert (done.stop_reason, len(done.ids)) == (StopReason.ABORTED, 0)


def talk(box: Any, lines: list[str], *contexts: str, **sampling: Any) -> list[str]:
    """What each of several requests gets; each context goes behind all that was said and given before."""
    tokenizer = box.LetterTokenizer(eos_ids=(box.EOS,))
    engine = ScriptedEngine({0: lines}, tokenizer)
    ids: list[int] = []
    texts: list[str] = []
    for given in contexts:
        ids += tokenizer.encode(given, allow_special=True)
        values: dict[str, Any] = {"max_new_tokens": 50} | sampling
        done = box.run(engine.generate(ids, Sampling(**values), session=0))
        ids += done.ids.tolist()
        texts.append(tokenizer.decode([i for i in done.ids.tolist() if i != box.EOS]))
    return texts


def test_a_line_that_was_interrupted_goes_on_if_nothing_was_put_behind_it(box: Any) -> None:
    assert talk(box, ["a;b;c", "next"], "Q", "", "", "", stop=(";",)) == ["a;", "b;", "c", "next"]
    assert talk(box, ["hello", "next"], "Q", "", "", max_new_tokens=3) == ["hel", "lo", "nex"]


def test_what_is_put_behind_an_interrupted_line_drops_its_rest(box: Any) -> None:
    assert talk(box, ["a;b;c", "next;"], "Q", "output", stop=(";",)) == ["a;", "next;"]


def test_a_line_can_end_as_if_a_limit_had_cut_it(box: Any) -> None:
    engine = ScriptedEngine({0: ["hi"]}, box.LetterTokenizer(), line_end=StopReason.LENGTH)
    done = box.run(engine.generate([5], Sampling(max_new_tokens=9), session=0))
    assert (done.ids.tolist(), done.stop_reason) == ([72, 73], StopReason.LENGTH)


def test_a_long_line_is_said_in_time_that_grows_with_its_length(box: Any) -> None:
    line = "x" * 300_000 + ";y"
    assert talk(box, [line], "Q", max_new_tokens=10**6, stop=(";",)) == [line[:-1]]
