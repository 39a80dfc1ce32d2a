from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath._C import balancer as core
from agentmath.core.errors import ConfigError, EngineError
from agentmath.rollout.balancer import WEIGHT_UNIT, Balancer, BalancerSettings

POLICIES = ("agentmath", "breakable", "round_robin", "least", "power_of_two", "consistent_hash", "radix", "score")
BLOCK = 4


def balancer_of(num_engines: int = 2, **changes: Any) -> Balancer:
    balancer = Balancer(replace(BalancerSettings(block_tokens=BLOCK, index_bytes=1 << 16), **changes))
    for _ in range(num_engines):
        balancer.add_engine()
    return balancer


def bound(balancer: Balancer) -> list[tuple[int, int, int]]:
    """(weight, tokens, leases) of each engine."""
    views = [balancer.look(k) for k in range(balancer.stats().num_engines)]
    return [(view.weight_units, view.context_tokens, view.num_running + view.num_paused) for view in views]


def run(work: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def test_the_settings_have_the_defaults_of_the_core() -> None:
    given = core.Settings()
    for field in fields(BalancerSettings):
        assert getattr(BalancerSettings(), field.name) == getattr(given, field.name), field.name


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policy": "fastest"}, "must be one of agentmath, breakable, round_robin"),
        ({"base_tokens": 0}, "base_tokens is 0, it must be 1 or more"),
        ({"base_weight": float("nan")}, "base_weight is nan"),
        ({"base_tokens": "many"}, "balancer: "),
        ({"index_bytes": -1}, "balancer: "),
    ],
)
def test_settings_that_cannot_be_are_a_config_error(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        balancer_of(**change)


def test_an_engine_that_cannot_be_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="capacity is 0"):
        balancer_of().add_engine(capacity=0.0)


def test_ids_come_as_lists_and_as_arrays_of_any_type_and_stride() -> None:
    balancer = balancer_of(1)
    ids = np.arange(40, dtype=np.int64)
    assert balancer.acquire(ids).hit_tokens == 0
    for same in (list(range(40)), ids, ids.astype(np.int32), np.repeat(ids, 2)[::2], range(40)):
        assert balancer.acquire(same).hit_tokens == 40
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        balancer.acquire(np.zeros((2, 3), np.int32))


def test_a_prompt_long_enough_to_be_hashed_without_the_gil_is_placed_alike() -> None:
    balancer = balancer_of(1, index_bytes=8 << 20)
    ids = np.arange(200_000, dtype=np.int32)
    assert [balancer.acquire(ids, session=1).hit_tokens for _ in range(2)] == [0, 200_000]


def test_unknown_numbers_are_errors_and_closed_leases_are_counted() -> None:
    balancer = balancer_of(1)
    lease = balancer.acquire([1]).lease
    assert balancer.release(lease)
    assert not balancer.release(lease, "failed")
    assert balancer.stats().num_late == 1
    with pytest.raises(ValueError, match="was never given"):
        balancer.release(lease + 1)
    with pytest.raises(ValueError, match="ending must be"):
        balancer.release(lease, "done")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="engine is 1, there are 1"):
        balancer.engine_down(1)


# ---- placed by waiting ----


def test_a_request_waits_for_room_and_its_lease_ends_with_it() -> None:
    async def work() -> None:
        balancer, order = balancer_of(0), []
        balancer.add_engine(kv_tokens=10)

        async def request(name: str) -> None:
            async with balancer.place(range(6), seconds=20) as placement:
                order.append(name)
                assert placement.engine == 0
                assert bound(balancer)[0][2] == 1
                await asyncio.sleep(0)

        await asyncio.gather(request("a"), request("b"), request("c"))
        assert order == ["a", "b", "c"]
        assert bound(balancer) == [(0, 0, 0)]

    run(work())


def test_no_wait_is_without_a_deadline() -> None:
    async def work() -> None:
        balancer = balancer_of(1)
        balancer.engine_down(0)
        with pytest.raises(EngineError, match=r"no engine took a request of 3 tokens within 0.01 s \(no_engine\)"):
            async with balancer.place([1, 2, 3], seconds=0.01):
                pass

    run(work())


def test_a_context_that_never_fits_fails_at_once() -> None:
    async def work() -> None:
        balancer = balancer_of(0)
        balancer.add_engine(kv_tokens=5)
        with pytest.raises(EngineError, match="fits into no engine's KV cache"):
            async with balancer.place(range(6), seconds=1000):
                pass

    run(work())


def test_an_engine_that_comes_back_wakes_those_that_wait() -> None:
    async def work() -> None:
        balancer = balancer_of(1)
        balancer.engine_down(0)

        async def request() -> int:
            async with balancer.place([1], seconds=20) as placement:
                return placement.engine

        waiting = asyncio.create_task(request())
        await asyncio.sleep(0)
        balancer.engine_up(0)
        assert await waiting == 0

    run(work())


def test_cancelling_one_that_runs_or_waits_leaks_no_weight_and_says_nothing_about_the_engine() -> None:
    async def work() -> None:
        balancer = balancer_of(0, breaker_failures=1)
        balancer.add_engine(kv_tokens=10)
        started = asyncio.Event()

        async def request() -> None:
            async with balancer.place(range(6), seconds=1000):
                started.set()
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(request()) for _ in range(3)]
        await started.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert bound(balancer) == [(0, 0, 0)]
        assert balancer.look(0).breaker == "closed"
        assert balancer._waiting == []

    run(work())


def test_engine_errors_open_the_breaker_and_one_probe_closes_it() -> None:
    async def work() -> None:
        balancer = balancer_of(1, breaker_failures=2, breaker_nanoseconds=20_000_000)
        for _ in range(2):
            with pytest.raises(EngineError):
                async with balancer.place([1], seconds=20):
                    raise EngineError("gone")
        assert balancer.look(0).breaker == "open"
        async with balancer.place([1], seconds=20):  # waits until it may be probed
            assert balancer.look(0).breaker == "half_open"
        assert balancer.look(0).breaker == "closed"

    run(work())


# ---- laws ----


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_expected_hits_are_true_where_engines_report_what_they_dropped(data: st.DataObject) -> None:
    balancer = balancer_of(2, policy=data.draw(st.sampled_from(POLICIES)))
    capacity = data.draw(st.integers(2, 12))
    caches: list[OrderedDict[tuple[int, ...], None]] = [OrderedDict(), OrderedDict()]
    grown: list[tuple[int, ...]] = [(), (), (), ()]
    for _ in range(data.draw(st.integers(1, 30))):
        session = data.draw(st.integers(0, 3))
        ids = grown[session] + tuple(data.draw(st.lists(st.integers(0, 1), max_size=6)))
        grown[session] = ids if session else ()
        context = tuple(np.repeat(ids, BLOCK).tolist())
        placement = balancer.acquire(context, session=session or None)
        prefixes = [context[: BLOCK * (i + 1)] for i in range(len(ids))]
        cache = caches[placement.engine]
        true_hit = next((i for i, prefix in enumerate(prefixes) if prefix not in cache), len(prefixes))
        assert placement.hit_tokens <= true_hit * BLOCK
        for prefix in reversed(prefixes):
            cache[prefix] = None
            cache.move_to_end(prefix)
        while len(cache) > capacity:
            dropped, _ = cache.popitem(last=False)
            balancer.drop_cached(placement.engine, dropped, kept_tokens=len(dropped) - BLOCK)
        balancer.release(placement.lease)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_events_and_seed_give_the_same_decisions(policy: str) -> None:
    def decide() -> list[int]:
        draw, balancer = np.random.default_rng(3), balancer_of(5, policy=policy, seed=7)
        engines, leases = [], []
        for _ in range(300):
            place = balancer.acquire(draw.integers(0, 2, draw.integers(0, 40)), session=int(draw.integers(0, 20)))
            engines.append(place.engine)
            leases.append(place.lease)
            if draw.random() < 0.5:
                balancer.release(leases.pop(int(draw.integers(0, len(leases)))))
        return engines

    first = decide()
    assert first == decide()
    assert len(set(first)) == 5


def test_another_seed_draws_otherwise() -> None:
    drawn = [
        [balancer_of(8, policy="power_of_two", seed=seed).acquire([]).engine for _ in range(1)] for seed in range(20)
    ]
    assert len({tuple(engines) for engines in drawn}) > 1


@given(lengths=st.lists(st.integers(0, 100), max_size=40), num_engines=st.integers(1, 5))
@settings(deadline=None)
def test_agentmath_is_the_published_formula(lengths: list[int], num_engines: int) -> None:
    """w = floor(L / L_base) + w_base, new ones to argmin W, sticky for good."""
    balancer = balancer_of(num_engines, policy="agentmath", base_tokens=10, base_weight=1.0)
    sums, homes = [0] * num_engines, dict[int, int]()
    for number, length in enumerate(lengths):
        session = number % 7
        engine = balancer.acquire_length(length, session=session).engine
        if session in homes:
            assert engine == homes[session]
        else:
            assert sums[engine] == min(sums)
        homes[session] = engine
        sums[engine] += length // 10 + 1
        assert [weight for weight, _, _ in bound(balancer)] == [total * WEIGHT_UNIT for total in sums]


def test_when_an_engine_leaves_consistent_hashing_moves_its_sessions_alone() -> None:
    balancer = balancer_of(5, policy="consistent_hash")
    before = {session: balancer.acquire_length(1, session=session).engine for session in range(300)}
    balancer.engine_down(3)
    after = {session: balancer.acquire_length(1, session=session).engine for session in range(300)}
    assert {session for session in before if before[session] != after[session]} == {
        session for session, engine in before.items() if engine == 3
    }


def test_the_dump_tells_a_person_what_is_where() -> None:
    balancer = balancer_of(2)
    lease = balancer.acquire(range(8), session=9).lease
    balancer.drain(1)
    text = balancer.dump()
    assert "engine 0 up, breaker closed, version 0, W 1.0000 / 1, 1 + 0 paused leases, 8 of 0 tokens, 2 blocks" in text
    assert "engine 1 draining" in text
    assert f"lease {lease} running, session 9 at engine 0, w 1.0000, 8 tokens" in text
