"""The transformers engine in a process of its own: the same tokens as inside the trainer."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentmath.config.engine import EngineSection  # noqa: E402
from agentmath.core.errors import EngineError  # noqa: E402
from agentmath.core.types import Completion, Sampling, StopReason  # noqa: E402
from agentmath.engines import replicas  # noqa: E402
from agentmath.engines.parity import Expected  # noqa: E402
from agentmath.orchestration.engines import build_engine, model_folder, replicated  # noqa: E402
from agentmath.training.policy import Policy  # noqa: E402
from agentmath.training.weights import logprobs_of, publish  # noqa: E402
from tiny_models import TEXT, rows, shake, tiny_policy  # noqa: E402

LIMITS: dict[str, Any] = {"max_rows": 8, "max_context_tokens": 128}
STOPS = ("</code>", "boxed{")
_SESSIONS = itertools.count(100)


class Box:
    """Two processes of one policy on one event loop."""

    def __init__(self, runner: asyncio.Runner, policy: Policy, engine: replicas.ReplicatedEngine) -> None:
        self.runner, self.policy, self.engine, self.version = runner, policy, engine, 0

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(coroutine, 120)

        return self.runner.run(bounded())

    async def publish(self) -> None:
        self.version += 1
        shake(self.policy.module, seed=self.version, scale=0.02)
        await publish(self.policy, self.engine, self.version, shared=False)

    async def prove(self) -> float:
        prompts = rows(self.policy)
        expected = Expected(version=self.version, rows=prompts, logprobs=logprobs_of(self.policy, prompts))
        return (await self.engine.check_parity(expected)).mean

    def ids(self, number: int) -> list[int]:
        return self.policy.tokenizer.encode(TEXT[number][:14], allow_special=True)


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    torch.set_num_threads(1)
    policy = tiny_policy()
    section = EngineSection(replicas=2, num_threads=1, **LIMITS)
    with asyncio.Runner() as runner, model_folder(policy, "") as folder:
        engine = replicated(policy, section, folder)
        runner.run(engine.open())
        try:
            yield Box(runner, policy, engine)
        finally:
            runner.run(engine.close())


async def sample(engine: Any, box: Box, count: int, **values: Any) -> list[Completion]:
    given: dict[str, Any] = {"max_new_tokens": 60} | values

    async def one(number: int) -> Completion:
        session = next(_SESSIONS)
        try:
            return await engine.generate(box.ids(number), Sampling(seed=number, **given), session=session)
        finally:
            engine.close_session(session)

    return list(await asyncio.gather(*map(one, range(count))))


def same(one: Completion, other: Completion) -> None:
    assert one.ids.tolist() == other.ids.tolist()
    assert (one.stop_reason, one.stop_text) == (other.stop_reason, other.stop_text)
    np.testing.assert_allclose(one.logprobs, other.logprobs, atol=2e-5)


@pytest.mark.parametrize("values", [{}, {"temperature": 0.7}, {"temperature": 0.0}, {"stop": STOPS}])
def test_a_process_samples_what_the_embedded_engine_samples(box: Box, values: dict[str, Any]):
    inside = build_engine(box.policy, EngineSection(**LIMITS))
    for one, other in zip(
        box.run(sample(box.engine, box, 6, **values)), box.run(sample(inside, box, 6, **values)), strict=True
    ):
        same(one, other)


def test_new_weights_reach_every_process_and_pass_the_gate(box: Box):
    async def go() -> None:
        before = await sample(box.engine, box, 4, temperature=0.0)
        await box.publish()
        assert await box.prove() < 1e-5
        after = await sample(box.engine, box, 4, temperature=0.0)
        assert [c.ids.tolist() for c in after] != [c.ids.tolist() for c in before]
        assert {int(v) for c in after for v in c.versions} == {box.version}

    box.run(go())


def test_weights_that_were_not_sent_are_caught(box: Box):
    async def go() -> None:
        shake(box.policy.module, seed=99, scale=0.02)
        try:
            with pytest.raises(EngineError, match="does not compute with the trainer's weights"):
                await box.prove()
        finally:
            await publish(box.policy, box.engine, box.version, shared=False)
        assert await box.prove() < 1e-5

    box.run(go())


def test_a_request_whose_process_is_killed_ends_as_if_it_had_not_been(box: Box, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replicas, "_BACKOFF_SECONDS", 0.05)
    inside = build_engine(box.policy, EngineSection(**LIMITS), version=box.version)
    expected = box.run(sample(inside, box, 8, max_new_tokens=100))

    async def go() -> list[Completion]:
        task = asyncio.create_task(sample(box.engine, box, 8, max_new_tokens=100))
        victim, requests = box.engine._processes[0], box.engine._processes[0]._streams
        while not any(s.num_tokens for s in requests.values()) and not task.done():
            await asyncio.sleep(0.005)
        if victim.pid:
            os.kill(victim.pid, signal.SIGKILL)
        return await task

    for one, other in zip(box.run(go()), expected, strict=True):
        same(one, other)


def test_a_pause_holds_requests_and_loses_nothing(box: Box):
    inside = build_engine(box.policy, EngineSection(**LIMITS), version=box.version)
    expected = box.run(sample(inside, box, 2, temperature=0.0))

    async def go(keeps_kv: bool) -> list[Completion]:
        await box.engine.pause(keeps_kv=keeps_kv)
        task = asyncio.create_task(sample(box.engine, box, 2, temperature=0.0))
        done, _ = await asyncio.wait([task], timeout=0.5)
        assert not done
        await box.engine.resume()
        return await task

    for keeps_kv in (True, False):
        for one, other in zip(box.run(go(keeps_kv)), expected, strict=True):
            same(one, other)


def test_an_aborted_request_keeps_its_tokens(box: Box):
    async def go() -> None:
        await box.engine.pause()
        task = asyncio.create_task(box.engine.generate(box.ids(0), Sampling(max_new_tokens=100), session=5))
        await asyncio.sleep(0.1)
        await box.engine.abort(5)
        await box.engine.resume()
        assert (await task).stop_reason is StopReason.ABORTED

    box.run(go())


def test_health_stats_and_cache_are_there(box: Box):
    async def go() -> None:
        deadline = time.monotonic() + 60
        while not all(p.is_up for p in box.engine._processes):  # one was killed above
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        await box.engine.check_health()
        await box.engine.reset_prefix_cache()
        assert [s["running"] for s in await box.engine.stats()] == [0.0, 0.0]

    box.run(go())
