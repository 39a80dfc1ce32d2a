from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling, StopReason

torch = pytest.importorskip("torch")


def same(a: list[Completion], b: list[Completion]) -> bool:
    """Bit-equal ids and log-probs."""
    return all(
        np.array_equal(x.ids, y.ids) and np.array_equal(x.logprobs, y.logprobs) for x, y in zip(a, b, strict=True)
    )


FAMILIES = [
    ("Qwen3", {}),
    ("Qwen3", {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}),
    ("Qwen2", {}),
    ("Llama", {"num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 48}),
    ("Llama", {"num_key_value_heads": 4, "attention_bias": True}),
    ("Qwen3", {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32}),
    ("Qwen3Moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
]


@pytest.mark.parametrize(("family", "sizes"), FAMILIES)
def test_logprobs_are_the_trainers(box: Any, family: str, sizes: dict[str, int]) -> None:
    policy = box.new_policy(family, **sizes)
    contexts = [*box.prompts(5), box.prompts(1)[0]]
    done = box.run(box.all_of(box.new_engine(policy), contexts, max_new_tokens=30))
    for context, completion in zip(contexts, done, strict=True):
        assert np.abs(completion.logprobs - box.recomputed(policy, context, completion)).max() < 1e-4


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.7])
def test_logprobs_are_those_of_the_temperature(box: Any, policy: Any, temperature: float) -> None:
    (context,) = box.prompts(1)
    (done,) = box.run(box.all_of(box.new_engine(policy), [context], max_new_tokens=20, temperature=temperature))
    assert np.abs(done.logprobs - box.recomputed(policy, context, done, temperature or 1.0)).max() < 1e-4


def test_bfloat16_logprobs_are_close_to_the_trainers(box: Any) -> None:
    policy = box.new_policy(dtype=torch.bfloat16)
    contexts = box.prompts(3)
    done = box.run(box.all_of(box.new_engine(policy), contexts, max_new_tokens=20))
    for context, completion in zip(contexts, done, strict=True):
        assert completion.logprobs.dtype == np.float32
        assert np.abs(completion.logprobs - box.recomputed(policy, context, completion)).max() < 0.25


def test_tokens_do_not_depend_on_who_else_decodes(box: Any, policy: Any) -> None:
    contexts = box.prompts(8)
    together = box.run(box.all_of(box.new_engine(policy), contexts, max_new_tokens=24))

    async def one_by_one() -> list[Completion]:
        engine = box.new_engine(policy)
        sampling = [Sampling(max_new_tokens=24, seed=i) for i in range(8)]
        return [await engine.generate(c, s, session=i) for i, (c, s) in enumerate(zip(contexts, sampling, strict=True))]

    alone = box.run(one_by_one())
    assert [c.ids.tolist() for c in together] == [c.ids.tolist() for c in alone]


def test_equal_contexts_are_computed_once(box: Any, policy: Any) -> None:
    engine, fed = box.new_engine(policy), []
    forward = policy.forward_rows
    engine._batch._forward = lambda ids, positions, rows: (fed.append(len(ids)), forward(ids, positions, rows))[1]
    (context,) = box.prompts(1, length=20)
    done = box.run(box.all_of(engine, [context] * 6, max_new_tokens=5))
    assert fed[0] == len(context)
    assert len({tuple(c.ids) for c in done}) > 1
    for completion in done:
        assert np.abs(completion.logprobs - box.recomputed(policy, context, completion)).max() < 1e-4


def test_contexts_are_cached_in_chunks_of_the_budget(box: Any, policy: Any) -> None:
    contexts = box.prompts(5, length=23)
    whole = box.run(box.all_of(box.new_engine(policy), contexts, max_new_tokens=10))
    engine, fed = box.new_engine(policy, max_prefill_tokens=9), []
    forward = policy.forward_rows
    engine._batch._forward = lambda ids, positions, rows: (fed.append(len(ids)), forward(ids, positions, rows))[1]
    chunked = box.run(box.all_of(engine, contexts, max_new_tokens=10))
    assert max(fed) <= 9 + 8
    assert [c.ids.tolist() for c in whole] == [c.ids.tolist() for c in chunked]


def test_more_requests_than_rows_are_all_served(box: Any, policy: Any) -> None:
    contexts = box.prompts(19)
    wide = box.run(box.all_of(box.new_engine(policy, max_rows=19), contexts, max_new_tokens=12))
    narrow = box.run(box.all_of(box.new_engine(policy, max_rows=3), contexts, max_new_tokens=12))
    assert [c.ids.tolist() for c in wide] == [c.ids.tolist() for c in narrow]


def test_generation_stops_where_a_stop_text_is_complete(box: Any, policy: Any) -> None:
    (context,) = box.prompts(1)
    stop, free = box.stop_of(policy, context)
    sampling = {"max_new_tokens": 30, "temperature": 0.0, "stop": ("\x7f", stop)}
    (done,) = box.run(box.all_of(box.new_engine(policy), [context], **sampling))
    end = policy.tokenizer.decode(free.ids).index(stop) + len(stop)
    assert (done.stop_reason, done.stop_text) == (StopReason.STOP, stop)
    assert done.ids.tolist() == free.ids[:end].tolist()


def test_an_end_token_is_included_and_reported(box: Any) -> None:
    policy = box.new_policy(tokenizer=box.LetterTokenizer(eos_ids=(box.EOS,)))
    head = policy.module.get_output_embeddings().weight
    with torch.no_grad():
        head[box.EOS] *= 5
    done = box.run(box.all_of(box.new_engine(policy), box.prompts(8), max_new_tokens=50))
    ended = [c for c in done if c.stop_reason is StopReason.EOS]
    assert ended
    for completion in ended:
        assert completion.ids[-1] == box.EOS
        assert box.EOS not in completion.ids[:-1]


def test_the_limits_of_request_and_context_end_with_length(box: Any, policy: Any) -> None:
    (context,) = box.prompts(1)
    engine = box.new_engine(policy, max_context_tokens=16)
    (short,) = box.run(box.all_of(engine, [context], max_new_tokens=3, temperature=0.0))
    (full,) = box.run(box.all_of(engine, [context], max_new_tokens=99, temperature=0.0))
    assert (len(short.ids), short.stop_reason) == (3, StopReason.LENGTH)
    assert (len(context) + len(full.ids), full.stop_reason) == (16, StopReason.LENGTH)


@pytest.mark.parametrize(
    ("ids", "sampling", "words"),
    [
        ([5] * 64, Sampling(max_new_tokens=1), ("64 tokens", "max_context_tokens = 64")),
        ([], Sampling(max_new_tokens=1), ("empty",)),
        ([5, 96], Sampling(max_new_tokens=1), ("to 96", "0 to 95")),
        ([-1], Sampling(max_new_tokens=1), ("-1",)),
        ([5], Sampling(max_new_tokens=0), ("max_new_tokens=0",)),
        ([5], Sampling(max_new_tokens=1, temperature=-1), ("temperature=-1",)),
        ([5], Sampling(max_new_tokens=1, stop=("",)), ("stop",)),
    ],
)
def test_impossible_requests_are_refused_with_both_numbers(
    box: Any, policy: Any, ids: list[int], sampling: Sampling, words: tuple[str, ...]
) -> None:
    with pytest.raises(EngineError) as error:
        box.run(box.new_engine(policy).generate(ids, sampling, session=0))
    assert all(word in str(error.value) for word in words)


def test_one_session_has_one_running_request(box: Any, policy: Any) -> None:
    async def twice() -> None:
        engine = box.new_engine(policy)
        await asyncio.gather(*(engine.generate([5, 6], Sampling(max_new_tokens=9), session=3) for _ in range(2)))

    with pytest.raises(EngineError, match="session 3 has a running request"):
        box.run(twice())


def test_a_follow_up_feeds_only_what_is_new(box: Any, policy: Any) -> None:
    engine, fed = box.new_engine(policy), []
    forward = policy.forward_rows
    engine._batch._forward = lambda ids, positions, rows: (fed.append(len(ids)), forward(ids, positions, rows))[1]
    (context,) = box.prompts(1)

    async def two_turns() -> tuple[list[int], Completion]:
        first = await engine.generate(context, Sampling(max_new_tokens=6, seed=1), session=0)
        longer = [*context, *first.ids.tolist(), 7, 8, 9]
        fed.clear()
        return longer, await engine.generate(longer, Sampling(max_new_tokens=6, seed=2), session=0)

    longer, second = box.run(two_turns())
    assert fed[0] == 4  # the last sampled token was never fed, then three new ones
    assert np.abs(second.logprobs - box.recomputed(policy, longer, second)).max() < 1e-4


def test_a_context_that_differs_from_the_cache_is_computed_from_the_difference_on(box: Any, policy: Any) -> None:
    engine, fed = box.new_engine(policy), []
    forward = policy.forward_rows
    engine._batch._forward = lambda ids, positions, rows: (fed.append(len(ids)), forward(ids, positions, rows))[1]
    (context,) = box.prompts(1)

    async def two_turns() -> tuple[list[int], Completion]:
        await engine.generate(context, Sampling(max_new_tokens=6, seed=1), session=0)
        other = [*context[:4], 90, 91, 92]
        fed.clear()
        return other, await engine.generate(other, Sampling(max_new_tokens=6, seed=2), session=0)

    other, second = box.run(two_turns())
    assert fed[0] == 3
    assert np.abs(second.logprobs - box.recomputed(policy, other, second)).max() < 1e-4


def test_idle_sessions_give_up_their_slots_and_are_computed_anew(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy, max_rows=2)

    async def many_open() -> list[tuple[list[int], Completion]]:
        out = []
        for turn in range(2):
            for session, context in enumerate(box.prompts(6)):
                ids = [*context, *([] if turn == 0 else [3 + session] * 3)]
                sampling = Sampling(max_new_tokens=4, seed=10 * turn + session)
                out.append((ids, await engine.generate(ids, sampling, session=session)))
        return out

    for ids, completion in box.run(many_open()):
        assert np.abs(completion.logprobs - box.recomputed(policy, ids, completion)).max() < 1e-4


def test_new_weights_change_version_and_drop_every_cache(box: Any) -> None:
    policy = box.new_policy()
    engine = box.new_engine(policy)
    (context,) = box.prompts(1)

    async def around_an_update() -> tuple[list[int], Completion, Completion]:
        first = await engine.generate(context, Sampling(max_new_tokens=5), session=0)
        with torch.no_grad():
            for _, parameter in policy.named_parameters():
                parameter.mul_(1.1)
        await engine.update_weights(4, None)
        longer = [*context, *first.ids.tolist(), 9]
        return longer, first, await engine.generate(longer, Sampling(max_new_tokens=5), session=0)

    longer, first, second = box.run(around_an_update())
    assert set(first.versions) == {0}
    assert set(second.versions) == {4}
    assert np.abs(second.logprobs - box.recomputed(policy, longer, second)).max() < 1e-4


def test_a_running_request_goes_on_with_new_weights_and_says_which_token_is_whose(box: Any) -> None:
    policy = box.new_policy()
    engine = box.new_engine(policy)
    contexts = box.prompts(3)

    async def update_midway() -> list[Completion]:
        async def publish() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            with torch.no_grad():
                for _, parameter in policy.named_parameters():
                    parameter.mul_(1.1)
            await engine.update_weights(1, None)

        done, _ = await asyncio.gather(box.all_of(engine, contexts, max_new_tokens=40), publish())
        return done

    for context, completion in zip(contexts, box.run(update_midway()), strict=True):
        new = completion.versions == 1
        assert 0 < new.sum() < len(new)
        assert np.all(np.diff(completion.versions) >= 0)
        again = box.recomputed(policy, context, completion)
        assert np.abs(completion.logprobs - again)[new].max() < 1e-4
        assert np.abs(completion.logprobs - again)[~new].max() > 1e-3


def test_handed_tensors_are_refused(box: Any, policy: Any) -> None:
    with pytest.raises(EngineError, match="handed 1 tensors"):
        box.run(box.new_engine(policy).update_weights(1, {"w": torch.zeros(1)}))


def test_an_aborted_request_returns_what_it_has(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy)
    contexts = box.prompts(3)

    async def abort_one() -> list[Completion]:
        async def aborter() -> None:
            for _ in range(30):
                await asyncio.sleep(0)
            await engine.abort(1)
            await engine.abort(77)

        done, _ = await asyncio.gather(box.all_of(engine, contexts, max_new_tokens=40), aborter())
        return done

    done = box.run(abort_one())
    free = box.run(box.all_of(box.new_engine(policy), contexts, max_new_tokens=40))
    assert done[1].stop_reason is StopReason.ABORTED
    assert 0 < len(done[1].ids) < len(free[1].ids)
    assert done[1].ids.tolist() == free[1].ids[: len(done[1].ids)].tolist()
    assert [done[i].ids.tolist() for i in (0, 2)] == [free[i].ids.tolist() for i in (0, 2)]


def test_queued_waiting_and_following_requests_can_be_aborted(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy, max_rows=4, max_prefill_tokens=4)
    (context,) = box.prompts(1, length=30)

    async def abort_some() -> list[Completion]:
        async def aborter() -> None:
            for _ in range(9):
                await asyncio.sleep(0)
            for session in (0, 2, 5):  # one that is computed, one that waits for it, one in the queue
                await engine.abort(session)

        done, _ = await asyncio.gather(box.all_of(engine, [context] * 6, max_new_tokens=8), aborter())
        return done

    done = box.run(abort_some())
    assert [c.stop_reason is StopReason.ABORTED for c in done] == [True, False, True, False, False, True]
    for i in (1, 3, 4):
        assert np.abs(done[i].logprobs - box.recomputed(policy, context, done[i])).max() < 1e-4


def test_a_cancelled_caller_frees_its_row(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy, max_rows=2)
    contexts = box.prompts(4)

    async def cancel_one() -> list[Completion]:
        victim = asyncio.create_task(engine.generate(contexts[3], Sampling(max_new_tokens=50), session=9))
        rest = asyncio.create_task(box.all_of(engine, contexts[:3], max_new_tokens=20))
        for _ in range(20):
            await asyncio.sleep(0)
        victim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await victim
        return await rest

    assert len(box.run(cancel_one())) == 3
    assert engine._batch.num_busy == 0


def test_a_failing_step_reaches_everybody_and_the_engine_recovers(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy, max_rows=2)
    forward, count = engine._batch._forward, [0]

    def failing(ids: Any, positions: Any, rows: Any) -> Any:
        count[0] += 1
        if count[0] == 3:
            raise RuntimeError("no more memory")
        return forward(ids, positions, rows)

    engine._batch._forward = failing

    async def all_outcomes() -> list[Any]:
        coroutines = [engine.generate(c, Sampling(max_new_tokens=9), session=i) for i, c in enumerate(box.prompts(5))]
        return await asyncio.gather(*coroutines, return_exceptions=True)

    outcomes = box.run(all_outcomes())
    assert all(isinstance(o, EngineError) and "no more memory" in str(o) for o in outcomes)
    assert len(box.run(box.all_of(engine, box.prompts(2), max_new_tokens=4))) == 2


def test_numbers_that_are_not_finite_name_the_version(box: Any) -> None:
    policy = box.new_policy()
    engine = box.new_engine(policy)
    with torch.no_grad():
        policy.module.model.norm.weight.fill_(torch.nan)
    box.run(engine.update_weights(6, None))
    with pytest.raises(EngineError, match="version 6"):
        box.run(box.all_of(engine, box.prompts(2), max_new_tokens=4))


def test_the_engine_serves_several_event_loops(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy)
    first = box.run(box.all_of(engine, box.prompts(4), max_new_tokens=10))

    async def left_in_the_middle() -> None:
        task = asyncio.create_task(box.all_of(engine, box.prompts(4), max_new_tokens=50))
        for _ in range(25):
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(left_in_the_middle())
    assert same(first, box.run(box.all_of(engine, box.prompts(4), max_new_tokens=10)))


def test_closing_a_running_session_aborts_it(box: Any, policy: Any) -> None:
    engine = box.new_engine(policy)

    async def close_midway() -> Completion:
        task = asyncio.create_task(engine.generate([5, 6], Sampling(max_new_tokens=50), session=2))
        for _ in range(15):
            await asyncio.sleep(0)
        engine.close_session(2)
        engine.close_session(12345)
        return await task

    assert box.run(close_midway()).stop_reason is StopReason.ABORTED


def test_a_cache_that_cannot_be_had_names_its_size(box: Any, policy: Any) -> None:
    with pytest.raises(EngineError, match=r"GiB .*lower engine.max_rows"):
        box.new_engine(policy, max_rows=1 << 22, max_context_tokens=1 << 20)
