"""What vLLM returns is what our own engine would: ids, log-probs, ends, versions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from agentmath.config.engine import EngineSection
from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.orchestration.engines import build_engine
from agentmath.training.policy import Policy
from tiny_models import TEXT, tiny_policy

SESSIONS = itertools.count(1)


@pytest.fixture(scope="module")
def vllm(open_vllm: Any) -> Iterator[Any]:
    with open_vllm(tiny_policy()) as running:
        yield running


def ids(policy: Policy, number: int, length: int = 14) -> list[int]:
    return policy.tokenizer.encode(TEXT[number][:length], allow_special=True)


async def sample(engine: Any, contexts: Sequence[Sequence[int]], **values: Any) -> list[Completion]:
    given: dict[str, Any] = {"max_new_tokens": 40} | values

    async def one(number: int, context: Sequence[int]) -> Completion:
        session = next(SESSIONS)
        try:
            return await engine.generate(context, Sampling(seed=number, **given), session=session)
        finally:
            engine.close_session(session)

    return list(await asyncio.gather(*(one(n, c) for n, c in enumerate(contexts))))


def recomputed(policy: Policy, context: Sequence[int], done: Completion, temperature: float = 1.0) -> np.ndarray:
    full = torch.tensor([*context, *done.ids.tolist()])
    with torch.no_grad():
        hidden = policy.forward_hidden(full, torch.arange(len(full)), [len(full)])
        logits = hidden.float() @ policy.head_weight().float().t() / temperature
    table = torch.log_softmax(logits, dim=-1)[len(context) - 1 : -1]
    return table.gather(1, full[len(context) :, None]).squeeze(1).numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.5, 0.0])
def test_logprobs_are_those_of_the_distribution_that_was_sampled(vllm: Any, temperature: float):
    contexts = [ids(vllm.policy, n) for n in range(6)]
    for context, done in zip(contexts, vllm.run(sample(vllm.engine, contexts, temperature=temperature)), strict=True):
        assert len(done.ids)
        np.testing.assert_allclose(done.logprobs, recomputed(vllm.policy, context, done, temperature or 1.0), atol=2e-5)


def test_equal_seeds_give_equal_tokens_and_other_seeds_others(vllm: Any):
    context = [ids(vllm.policy, 0)] * 3
    first, again = vllm.run(sample(vllm.engine, context)), vllm.run(sample(vllm.engine, context))
    assert [c.ids.tolist() for c in first] == [c.ids.tolist() for c in again]
    assert len({tuple(c.ids.tolist()) for c in first}) == 3


def test_texts_end_exactly_where_our_own_engine_ends_them(vllm: Any):
    """Greedy decoding, stop texts that lie across tokens, inside one, and partly in the context."""
    policy, contexts = vllm.policy, [ids(vllm.policy, n) for n in range(6)]
    inside = build_engine(policy, EngineSection(max_rows=8, max_context_tokens=192))
    free = vllm.run(sample(inside, contexts, temperature=0.0))
    texts = [policy.tokenizer.decode(c.ids) for c in free]
    checked = 0
    for cut in ((3, 5), (6, 12), (9, 10)):
        stop = tuple(dict.fromkeys(text[slice(*cut)] for text in texts if len(text) > cut[1]))
        ours = vllm.run(sample(inside, contexts, temperature=0.0, stop=stop))
        theirs = vllm.run(sample(vllm.engine, contexts, temperature=0.0, stop=stop))
        for one, other in zip(ours, theirs, strict=True):
            assert one.ids.tolist() == other.ids.tolist()
            assert (one.stop_reason, one.stop_text) == (other.stop_reason, other.stop_text)
            checked += one.stop_reason is StopReason.STOP
    assert checked >= 6


def test_a_stop_text_may_begin_in_the_context(vllm: Any):
    policy = vllm.policy
    inside = build_engine(policy, EngineSection(max_rows=8, max_context_tokens=192))
    num_at_once = 0
    for context in (ids(policy, n) for n in range(8)):
        (free,) = vllm.run(sample(inside, [context], temperature=0.0))
        told, begin = policy.tokenizer.decode([*context, *free.ids.tolist()]), len(policy.tokenizer.decode(context))
        stop = (told[begin - 2 : begin + 1],)
        (one,) = vllm.run(sample(inside, [context], temperature=0.0, stop=stop))
        (other,) = vllm.run(sample(vllm.engine, [context], temperature=0.0, stop=stop))
        assert one.ids.tolist() == other.ids.tolist()
        assert (one.stop_reason, one.stop_text) == (other.stop_reason, other.stop_text)
        num_at_once += other.stop_reason is StopReason.STOP and len(other.ids) == 1
    assert num_at_once


def test_an_end_token_ends_a_message_and_is_returned(vllm: Any):
    contexts, ended = [ids(vllm.policy, n) for n in range(8)], 0
    for _ in range(6):
        done = vllm.run(sample(vllm.engine, contexts, temperature=2.0, max_new_tokens=170))
        for c in done:
            assert not set(c.ids[:-1].tolist()) & set(vllm.policy.tokenizer.eos_ids)
            assert (c.stop_reason is StopReason.EOS) == (int(c.ids[-1]) in vllm.policy.tokenizer.eos_ids)
            ended += c.stop_reason is StopReason.EOS
        contexts = [[*c[:20], n + 20] for n, c in enumerate(contexts)]
    assert ended


def test_a_temperature_that_vllm_refuses_is_one_sentence(vllm: Any):
    with pytest.raises(EngineError, match=r"engine 0 \(vllm\): .*temperature must be in"):
        vllm.run(sample(vllm.engine, [ids(vllm.policy, 0)], temperature=3.0))


def test_lengths_are_kept(vllm: Any):
    context = ids(vllm.policy, 0)
    (done,) = vllm.run(sample(vllm.engine, [context], max_new_tokens=7, temperature=0.0))
    assert (len(done.ids), done.stop_reason) == (7, StopReason.LENGTH)
    with pytest.raises(EngineError, match="a context of 192 tokens cannot be continued"):
        vllm.run(sample(vllm.engine, [[5] * 192]))


def test_an_aborted_request_returns_what_it_has(vllm: Any):
    async def go() -> Completion:
        context = ids(vllm.policy, 1)
        task = asyncio.create_task(vllm.engine.generate(context, Sampling(max_new_tokens=170), session=-1))
        streams = vllm.engine._processes[0]._streams
        while not any(s.num_tokens for s in streams.values()) and not task.done():
            await asyncio.sleep(0.002)
        await vllm.engine.abort(-1)
        return await task

    done = vllm.run(go())
    assert done.stop_reason is StopReason.ABORTED or len(done.ids) == 170
    assert len(done.ids) == len(done.logprobs) == len(done.versions) > 0
    np.testing.assert_allclose(done.logprobs, recomputed(vllm.policy, ids(vllm.policy, 1), done), atol=2e-5)


@pytest.mark.parametrize("keeps_kv", [True, False])
def test_a_pause_holds_requests_and_changes_nothing(vllm: Any, keeps_kv: bool):
    contexts = [ids(vllm.policy, n) for n in range(3)]
    undisturbed = vllm.run(sample(vllm.engine, contexts, temperature=0.0, max_new_tokens=150))

    async def go() -> list[Completion]:
        task = asyncio.create_task(sample(vllm.engine, contexts, temperature=0.0, max_new_tokens=150))
        streams = vllm.engine._processes[0]._streams
        while not any(s.num_tokens for s in streams.values()):
            await asyncio.sleep(0.002)
        await vllm.engine.pause(keeps_kv=keeps_kv)
        done, _ = await asyncio.wait([task], timeout=0.5)
        before = sum(s.num_tokens for s in streams.values())
        done, _ = await asyncio.wait([task], timeout=0.5)
        assert not done or before == 0
        assert sum(s.num_tokens for s in streams.values()) == before
        await vllm.engine.resume()
        return await task

    for one, other in zip(vllm.run(go()), undisturbed, strict=True):
        assert one.ids.tolist() == other.ids.tolist()


def test_a_cached_prefix_is_met_again_and_never_across_versions(vllm: Any):
    context = ids(vllm.policy, 2, length=60) * 3
    context = context[:100]

    async def go() -> None:
        await sample(vllm.engine, [context], max_new_tokens=2)
        before = (await vllm.engine.stats())[0]["cached_tokens"]
        await sample(vllm.engine, [context], max_new_tokens=2)
        met = (await vllm.engine.stats())[0]["cached_tokens"]
        assert met - before >= 64
        await vllm.publish()
        assert (await vllm.prove()).mean < 1e-4
        (done,) = await sample(vllm.engine, [context], max_new_tokens=5)
        assert (await vllm.engine.stats())[0]["cached_tokens"] == met
        np.testing.assert_allclose(done.logprobs, recomputed(vllm.policy, context, done), atol=2e-5)

    vllm.run(go())


def test_weights_that_change_under_a_request_are_told_token_by_token(vllm: Any):
    """Each token's log-prob is that of the weights that its version names: caches of old weights are not used."""
    context = ids(vllm.policy, 3)
    old = {name: p.detach().clone() for name, p in vllm.policy.named_parameters()}

    async def go() -> Completion:
        task = asyncio.create_task(
            vllm.engine.generate(context, Sampling(max_new_tokens=170, temperature=1.0), session=-2)
        )
        streams = vllm.engine._processes[0]._streams
        while not any(s.num_tokens >= 5 for s in streams.values()) and not task.done():
            await asyncio.sleep(0.001)
        await vllm.publish(scale=0.01)
        return await task

    done = vllm.run(go())
    versions = done.versions.tolist()
    assert versions == sorted(versions)
    assert set(versions) == {vllm.version - 1, vllm.version}
    new = recomputed(vllm.policy, context, done)
    with torch.no_grad():
        kept = {name: p.detach().clone() for name, p in vllm.policy.named_parameters()}
        for name, p in vllm.policy.named_parameters():
            p.copy_(old[name])
        before = recomputed(vllm.policy, context, done)
        for name, p in vllm.policy.named_parameters():
            p.copy_(kept[name])
    expected = np.where(np.array(versions) == vllm.version, new, before)
    np.testing.assert_allclose(done.logprobs, expected, atol=2e-5)
    assert np.abs(new - before).mean() > 1e-3
