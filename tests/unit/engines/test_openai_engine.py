"""A served model: what is asked, what is read, and what becomes of everything that a network can do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from agentmath.config.endpoint import EndpointSection
from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.byte_tokenizer import ByteTokenizer
from agentmath.engines.chat_marks import MarkedTokenizer
from agentmath.engines.openai_engine import OpenAIEngine
from agentmath.engines.piece_tokenizer import PieceTokenizer
from faulty_server import FaultyServer, serving

T = TypeVar("T")
OUTPUT = ("<interpreter>", "</interpreter>")
QUESTION = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "What is 6*7?"}]
TEXT = ["I", " see", " <co", "de>1", "</co", "de>", " never", " read"]


def says(*pieces: str) -> Callable[[dict[str, Any]], Iterator[str]]:
    return lambda body: iter(pieces)


def ask(
    server: FaultyServer,
    *,
    said: str = "",
    stop: tuple[str, ...] = (),
    limit: int = 100,
    tokenizer: Any = None,
    **settings: Any,
) -> tuple[Completion, str, dict[str, int]]:
    """One request: (completion, its text, counts)."""
    tokenizer = tokenizer or MarkedTokenizer(PieceTokenizer())
    with serving(server) as url:
        section = EndpointSection(url=url, model="m", backoff_seconds=0.01, **settings)

        async def main() -> Completion:
            engine = OpenAIEngine(section, tokenizer, output=OUTPUT, seed=0)
            counts.append(engine.counts)
            try:
                prompt = (
                    "Q: "
                    if section.api == "completions"
                    else tokenizer.render_chat(QUESTION, add_generation_prompt=True)
                )
                ids = tokenizer.encode(prompt + said, allow_special=True)
                return await engine.generate(ids, Sampling(max_new_tokens=limit, stop=stop), session=1)
            finally:
                await engine.close()

        counts: list[Any] = []
        done = asyncio.run(main())
    return done, tokenizer.decode([i for i in done.ids if i not in tokenizer.eos_ids]), dict(counts[0])


def test_an_answer_is_read_up_to_the_end_of_a_stop_text_and_no_further() -> None:
    done, text, _ = ask(FaultyServer(says(*TEXT)), stop=("</code>", "<interpreter>"))
    assert (done.stop_reason, done.stop_text) == (StopReason.STOP, "</code>")
    assert text == "I see <code>1</code>"
    assert np.isnan(done.logprobs).all() and len(done.logprobs) == len(done.ids) == len(done.versions)


def test_a_stop_text_may_have_begun_in_the_context_but_not_ended_there() -> None:
    server = FaultyServer(says("de> more"))
    done, text, _ = ask(server, said="x</code> y</co", stop=("</code>",), prefill=True)
    assert (done.stop_text, text) == ("</code>", "de>")


def test_the_end_of_a_message_and_a_limit_are_told_apart() -> None:
    done, text, _ = ask(FaultyServer(says("a", "b")))
    assert (done.stop_reason, text, done.ids[-1]) == (StopReason.EOS, "ab", 0)
    done, text, _ = ask(FaultyServer(says("a", "b", "c")), limit=2)
    assert (done.stop_reason, text, len(done.ids)) == (StopReason.LENGTH, "ab", 2)


@pytest.mark.parametrize(
    ("fault", "counted"),
    [
        ("429", "429"),
        ("500", "500"),
        ("503", "503"),
        ("drop", "broken_stream"),
        ("refuse", "connection"),
        ("garbage", "broken_stream"),
        ("error", "broken_stream"),
        ("silence", "silence"),
    ],
)
def test_what_may_pass_is_tried_again_and_counted(fault: str, counted: str) -> None:
    server = FaultyServer(says("42"), [fault, fault])
    _, text, counts = ask(server, idle_seconds=0.3)
    assert text == "42"
    assert (counts["requests"], counts["tries"], counts[f"retried/{counted}"]) == (1, 3, 2)
    assert server.bodies[0] == server.bodies[2], "a further try asks for the same sample"


@pytest.mark.parametrize("status", ["400", "401", "404"])
def test_what_will_not_pass_is_not_tried_again(status: str) -> None:
    server = FaultyServer(says("42"), [status] * 3)
    hint = "is OPENAI_API_KEY set" if status == "401" else f"made to fail with {status}"
    with pytest.raises(EngineError, match=hint):
        ask(server)
    assert len(server.bodies) == 1


def test_tries_end_and_the_last_word_of_the_server_is_told() -> None:
    server = FaultyServer(says("42"), ["500"] * 9)
    with pytest.raises(EngineError, match=r"3 tries failed; the last said: 500 .*made to fail"):
        ask(server, max_retries=2)
    assert len(server.bodies) == 3


def test_a_deadline_holds_for_all_tries_together() -> None:
    with pytest.raises(EngineError, match=r"no answer within endpoint.request_seconds = 0.5"):
        ask(FaultyServer(says("42"), ["silence"] * 50), request_seconds=0.5, idle_seconds=0.2)


def test_an_answer_that_is_not_streamed_is_read_too() -> None:
    done, text, _ = ask(FaultyServer(says(*TEXT), ["whole"]), stop=("</code>",))
    assert (text, done.stop_reason) == ("I see <code>1</code>", StopReason.STOP)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FaultyServer(says("42"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ask(server)
    monkeypatch.setenv("OTHER_KEY", "sesame")
    ask(FaultyServer(says("42")), key_variable="OPENAI_API_KEY")
    other = FaultyServer(says("42"))
    ask(other, key_variable="OTHER_KEY")
    assert "authorization" not in server.headers[0]
    assert other.headers[0]["authorization"] == "Bearer sesame"


SAID = "<code>print(6*7)</code><interpreter>42</interpreter>"


def test_outputs_are_messages_of_the_user_where_a_server_cannot_go_on_with_a_message() -> None:
    server = FaultyServer(says("\\boxed{42}"))
    ask(server, said=SAID)
    assert server.bodies[0]["messages"] == [
        *QUESTION,
        {"role": "assistant", "content": "<code>print(6*7)</code>"},
        {"role": "user", "content": "<interpreter>42</interpreter>"},
    ]


def test_outputs_stand_in_the_assistants_message_where_it_can() -> None:
    server = FaultyServer(says("\\boxed{42}"))
    ask(server, said=SAID, prefill=True)
    assert server.bodies[0]["messages"] == [*QUESTION, {"role": "assistant", "content": SAID}]
    assert server.bodies[0]["continue_final_message"] is True


def test_a_message_broken_off_in_mid_sentence_is_refused_without_prefill() -> None:
    with pytest.raises(EngineError, match=r"set endpoint.prefill"):
        ask(FaultyServer(says("x")), said="so</code")


def test_completions_go_on_with_the_text_itself() -> None:
    server = FaultyServer(says("42"))
    _, text, _ = ask(server, said=SAID, api="completions", tokenizer=ByteTokenizer())
    assert (server.bodies[0]["prompt"], text) == ("Q: " + SAID, "42")


def test_a_named_tokenizer_gives_its_own_ids() -> None:
    done, text, _ = ask(FaultyServer(says("4", "2")), tokenizer=MarkedTokenizer(ByteTokenizer()))
    assert (text, done.ids.tolist()) == ("42", [ord("4"), ord("2"), 256])


def test_thoughts_that_a_server_gives_apart_stand_in_a_think_section() -> None:
    from agentmath.engines.completion_stream import read_events

    def events(*deltas: dict[str, str]) -> str:
        async def lines() -> AsyncIterator[str]:
            for delta in deltas:
                yield 'data: {"choices": [{"delta": ' + str(delta).replace("'", '"') + "}]}"
            yield "data: [DONE]"

        async def main() -> str:
            return "".join([piece.text async for piece in read_events(lines())])

        return asyncio.run(main())

    thoughts: Sequence[dict[str, str]] = ({"reasoning_content": "6 times"}, {"reasoning_content": " 7"})
    assert events(*thoughts, {"content": "It"}, {"content": " is 42"}) == "<think>6 times 7</think>It is 42"
    assert events({"content": "42"}) == "42"
    assert events(*thoughts) == "<think>6 times 7</think>"


def test_an_aborted_request_returns_and_says_so() -> None:
    server = FaultyServer(says("42"), ["silence"])
    tokenizer = PieceTokenizer()
    with serving(server) as url:

        async def main() -> Completion:
            engine = OpenAIEngine(
                EndpointSection(url=url, model="m", api="completions"), tokenizer, output=OUTPUT, seed=0
            )
            request = asyncio.ensure_future(
                engine.generate(tokenizer.encode("Q", allow_special=True), Sampling(max_new_tokens=9), session=3)
            )
            async with asyncio.timeout(20):
                while not server.bodies:
                    await asyncio.sleep(0.01)
                await engine.abort(3)
                done = await request
            await engine.close()
            return done

        assert asyncio.run(main()).stop_reason is StopReason.ABORTED


def test_a_served_model_takes_no_weights() -> None:
    async def main() -> None:
        engine = OpenAIEngine(EndpointSection(url="http://127.0.0.1:9/v1"), PieceTokenizer(), output=OUTPUT, seed=0)
        await engine.update_weights(1, None)

    with pytest.raises(EngineError, match="cannot be given weights"):
        asyncio.run(main())


@pytest.mark.parametrize("text", ["", "a", "What is 6*7?\n  <code>x</code>", "\u00e9\ufffd\u4e2d \t\n end "])
def test_pieces_give_back_the_text_they_were_made_of(text: str) -> None:
    tokenizer = PieceTokenizer()
    ids = tokenizer.encode(text, allow_special=False)
    assert tokenizer.decode(ids) == text and 0 not in ids
    assert tokenizer.encode(text, allow_special=False) == ids
