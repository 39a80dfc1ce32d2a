from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agentmath.core.types import Completion, Sampling, StopReason

pytest.importorskip("torch")


def same(a: list[Completion], b: list[Completion]) -> bool:
    """Bit-equal ids and log-probs."""
    return all(
        np.array_equal(x.ids, y.ids) and np.array_equal(x.logprobs, y.logprobs) for x, y in zip(a, b, strict=True)
    )


TOOL_STOPS = tuple("5:aHqZ!")


async def with_tools(box: Any, engine: Any, contexts: list[list[int]], delays: Any) -> list[Completion]:
    """Requests that pause at a stop text, run a tool of random duration, and go on with its output."""

    async def episode(session: int, ids: list[int]) -> list[Completion]:
        done = []
        for turn in range(4):
            sampling = Sampling(max_new_tokens=12, stop=TOOL_STOPS, seed=100 * session + turn)
            completion = await engine.generate(ids, sampling, session=session)
            done.append(completion)
            if completion.stop_reason is not StopReason.STOP:
                break
            await asyncio.sleep(float(delays.choice([0, 0, 0.001, 0.004, 0.02])))
            ids = [*ids, *completion.ids.tolist(), 40 + turn, 41 + session % 30]
        engine.close_session(session)
        return done

    episodes = await asyncio.gather(*(episode(i, c) for i, c in enumerate(contexts)))
    return [c for e in episodes for c in e]


@pytest.mark.parametrize(("max_rows", "latency"), [(64, 4), (24, 0), (24, 2)])
def test_results_do_not_depend_on_how_fast_tools_are(box: Any, policy: Any, max_rows: int, latency: int) -> None:
    contexts = [c for c in box.prompts(8) for _ in range(8)]

    def once(seed: int) -> list[Completion]:
        engine = box.new_engine(policy, max_rows=max_rows, max_context_tokens=96, tool_latency_steps=latency)
        return box.run(with_tools(box, engine, contexts, np.random.default_rng(seed)))

    first, second, third = once(1), once(2), once(3)
    assert sum(c.stop_reason is StopReason.STOP for c in first) > 20
    assert same(first, second)
    assert same(first, third)


async def with_newcomers(box: Any, engine: Any, contexts: list[list[int]], delays: Any) -> list[Completion]:
    """As with_tools, but who ends brings the next one in, and the third to end sends one away that runs: both may
    happen right behind a tool."""
    done: dict[int, list[Completion]] = {}
    tasks: list[asyncio.Task[None]] = []
    ended: list[int] = []

    async def episode(session: int, ids: list[int]) -> None:
        for turn in range(3):
            sampling = Sampling(max_new_tokens=12, stop=TOOL_STOPS, seed=100 * session + turn)
            completion = await engine.generate(ids, sampling, session=session)
            done.setdefault(session, []).append(completion)
            if completion.stop_reason is not StopReason.STOP:
                break
            await asyncio.sleep(float(delays.choice([0, 0, 0.001, 0.004, 0.02])))
            await engine.rejoin(session)
            ids = [*ids, *completion.ids.tolist(), 40 + turn, 41 + session % 30]
        end(session)

    def end(session: int) -> None:
        ended.append(session)
        if len(tasks) < len(contexts):
            tasks.append(asyncio.create_task(episode(len(tasks), contexts[len(tasks)])))
        if len(ended) == 3:
            running = max(set(range(len(tasks))) - set(ended))
            tasks.append(asyncio.create_task(engine.abort(running)))
        engine.close_session(session)

    for session in range(6):
        tasks.append(asyncio.create_task(episode(session, contexts[session])))
    while not all(task.done() for task in tasks):
        await asyncio.gather(*tasks)
    return [c for session in sorted(done) for c in done[session]]


@pytest.mark.parametrize("latency", [0, 3])
def test_who_comes_and_goes_does_not_depend_on_how_fast_tools_are(box: Any, policy: Any, latency: int) -> None:
    contexts = [c for c in box.prompts(8) for _ in range(5)]

    def once(seed: int) -> list[Completion]:
        engine = box.new_engine(policy, max_rows=6, max_context_tokens=96, tool_latency_steps=latency)
        return box.run(with_newcomers(box, engine, contexts, np.random.default_rng(seed)))

    first, second, third = once(1), once(2), once(3)
    assert sum(c.stop_reason is StopReason.STOP for c in first) > 10
    assert sum(c.stop_reason is StopReason.ABORTED for c in first) <= 1
    assert same(first, second)
    assert same(first, third)


def test_rejoining_waits_for_nothing_where_nothing_is_due(box: Any, policy: Any) -> None:
    (context,) = box.prompts(1)
    engine = box.new_engine(policy)

    async def once() -> None:
        await engine.rejoin(5)
        await engine.generate(context, Sampling(max_new_tokens=3), session=5)
        await engine.rejoin(5)

    box.run(asyncio.wait_for(once(), 20))


def test_a_reused_engine_gives_what_a_new_one_gives(box: Any, policy: Any) -> None:
    contexts = [c for c in box.prompts(4) for _ in range(8)]

    def once(engine: Any) -> list[Completion]:
        return box.run(with_tools(box, engine, contexts, np.random.default_rng(0)))

    used = box.new_engine(policy, max_rows=20, max_context_tokens=96)
    once(used)
    box.run(used.update_weights(0, None))
    assert same(once(used), once(box.new_engine(policy, max_rows=20, max_context_tokens=96)))


def test_decoding_goes_on_without_a_session_that_never_comes_back(
    box: Any, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (context,) = box.prompts(1)
    stop, _ = box.stop_of(policy, context)
    engine = box.new_engine(policy, tool_latency_steps=1, tool_wait_seconds=0.05)

    async def one_is_lost() -> Completion:
        lost = Sampling(max_new_tokens=30, temperature=0.0, stop=(stop,))

        async def forgetful() -> Completion:
            return await engine.generate(context, lost, session=0)

        async def patient() -> Completion:
            return await engine.generate(box.prompts(2)[1], Sampling(max_new_tokens=40), session=1)

        return (await asyncio.gather(forgetful(), patient()))[1]

    assert len(box.run(one_is_lost()).ids) > 10
    assert "tool_wait_seconds = 0.05 (first: 0)" in caplog.text


def test_a_tool_may_itself_ask_the_engine(box: Any, policy: Any) -> None:
    (context,) = box.prompts(1)
    stop, _ = box.stop_of(policy, context)
    engine = box.new_engine(policy, tool_latency_steps=0, tool_wait_seconds=30.0)

    async def nested() -> float:
        begin = asyncio.get_running_loop().time()
        first = await engine.generate(context, Sampling(max_new_tokens=30, temperature=0.0, stop=(stop,)), session=0)
        assert first.stop_reason is StopReason.STOP
        inner = engine.generate(box.prompts(2)[1], Sampling(max_new_tokens=20), session=1)
        await asyncio.create_task(inner)
        engine.close_session(1)
        await engine.generate([*context, *first.ids.tolist(), 9], Sampling(max_new_tokens=5), session=0)
        return asyncio.get_running_loop().time() - begin

    assert box.run(nested()) < 20


async def random_life(box: Any, engine: Any, session: int, seed: int) -> list[Any]:
    """Turns of random length; now and then the context is rewritten, the request aborted, the session closed."""
    draw = np.random.default_rng([seed, session])
    ids, done = draw.integers(2, box.VOCAB, int(draw.integers(1, 20))).tolist(), []
    for turn in range(int(draw.integers(1, 5))):
        sampling = Sampling(
            max_new_tokens=int(draw.integers(1, 15)),
            temperature=float(draw.choice([1.0, 0.7])),
            stop=TOOL_STOPS if draw.random() < 0.5 else (),
            seed=int(draw.integers(1 << 30)),
        )
        task = asyncio.create_task(engine.generate(ids, sampling, session=session))
        if draw.random() < 0.2:
            for _ in range(int(draw.integers(0, 40))):
                await asyncio.sleep(0)
            await engine.abort(session)
        completion = await task
        done.append((list(ids), sampling.temperature, completion))
        if draw.random() < 0.3:
            engine.close_session(session)
        await asyncio.sleep(float(draw.choice([0, 0.001])))
        kept = ids[: len(ids) // 2] if draw.random() < 0.2 else [*ids, *completion.ids.tolist()]
        ids = [*kept, 50 + turn, 60 + turn][-60:]
    engine.close_session(session)
    return done


@pytest.mark.parametrize("seed", range(6))
def test_whatever_sessions_do_logprobs_are_the_trainers(box: Any, policy: Any, seed: int) -> None:
    draw = np.random.default_rng(seed)
    engine = box.new_engine(
        policy,
        max_rows=int(draw.integers(1, 9)),
        max_context_tokens=80,
        max_prefill_tokens=int(draw.choice([3, 16, 1000])),
        tool_latency_steps=int(draw.integers(0, 4)),
        tool_wait_seconds=5.0,
    )

    async def lives() -> list[Any]:
        return await asyncio.gather(*(random_life(box, engine, i, seed) for i in range(20)))

    for life in box.run(lives()):
        for ids, temperature, completion in life:
            if len(completion.ids):
                again = box.recomputed(policy, ids, completion, temperature)
                assert np.abs(completion.logprobs - again).max() < 1e-4
    assert engine._batch.num_busy == 0
    assert not engine._sessions
