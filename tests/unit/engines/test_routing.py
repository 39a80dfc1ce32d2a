from __future__ import annotations

import asyncio

import pytest

from agentmath.core.errors import EngineError
from agentmath.engines.routing import LeastLoaded


def router(num_engines: int) -> LeastLoaded:
    made = LeastLoaded()
    assert [made.add_engine() for _ in range(num_engines)] == [*range(num_engines)]
    return made


async def place(made: LeastLoaded, session: int, until: asyncio.Event | None = None) -> int:
    async with made.place([1], session=session, seconds=5) as placed:
        if until is not None:
            await until.wait()
        return placed.engine


def test_new_sessions_go_to_the_engine_with_the_fewest_requests():
    async def go() -> list[int]:
        made, until = router(3), asyncio.Event()
        tasks = [asyncio.create_task(place(made, s, until)) for s in range(6)]
        await asyncio.sleep(0)
        until.set()
        return sorted(await asyncio.gather(*tasks))

    assert asyncio.run(go()) == [0, 0, 1, 1, 2, 2]


def test_idle_engines_take_turns():
    async def go() -> list[int]:
        made = router(3)
        return [await place(made, s) for s in range(6)]

    assert asyncio.run(go()) == [0, 1, 2, 0, 1, 2]


def test_a_session_stays_where_it_was_until_it_ends():
    async def go() -> list[int]:
        made = router(3)
        first = [await place(made, 7), await place(made, 8), await place(made, 7), await place(made, 7)]
        made.end_session(7)
        return [*first, await place(made, 7)]

    assert asyncio.run(go()) == [0, 1, 0, 0, 2]


def test_an_engine_that_is_down_gets_nothing_and_its_sessions_move():
    async def go() -> list[int]:
        made = router(2)
        before = await place(made, 7)
        made.engine_down(before)
        after = [await place(made, s) for s in (7, 8, 9)]
        made.engine_up(before)
        return [before, *after, await place(made, 7), await place(made, 10)]

    assert asyncio.run(go()) == [0, 1, 1, 1, 1, 0]


def test_a_request_waits_for_an_engine_that_comes_up():
    async def go() -> int:
        made = router(1)
        made.engine_down(0)
        task = asyncio.create_task(place(made, 7))
        await asyncio.sleep(0)
        assert not task.done()
        made.engine_up(0)
        return await task

    assert asyncio.run(go()) == 0


def test_waiting_has_an_end_that_says_what_was_awaited():
    async def go() -> None:
        made = router(2)
        made.engine_down(0)
        made.engine_down(1)
        async with made.place([1], session=7, seconds=0.01):
            pass

    with pytest.raises(EngineError, match=r"session 7: none of 2 engines is up after 0\.01 s"):
        asyncio.run(go())


def test_a_place_is_given_up_whatever_the_block_raises():
    async def go() -> list[int]:
        made = router(2)
        for error in (EngineError("x"), ValueError("y"), asyncio.CancelledError()):
            try:
                async with made.place([1], session=1, seconds=1):
                    raise error
            except BaseException:
                pass
        made.end_session(1)
        return [seat.num_running for seat in made._seats]

    assert asyncio.run(go()) == [0, 0]
