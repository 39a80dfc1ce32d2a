"""Which engine takes a request: the protocol, and the simplest policy that is right.

A balancer with a prefix index and weights fits the same protocol and is handed in from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentmath.core.errors import EngineError
from agentmath.engines.backend import Ids


class Placed(Protocol):
    """Where a request goes."""

    @property
    def engine(self) -> int: ...


class Router(Protocol):
    """Engines are numbered from 0 as they are added."""

    def add_engine(self) -> int: ...

    def engine_up(self, engine: int) -> None:
        """It is back, or no longer drains."""
        ...

    def engine_down(self, engine: int) -> Any:
        """It is gone with its cache; it gets nothing until it is up."""
        ...

    def set_version(self, engine: int, version: int) -> None:
        """Its weights changed and its cache is void."""
        ...

    def place(self, ids: Ids | Sequence[int], *, session: int, seconds: float) -> AbstractAsyncContextManager[Placed]:
        """A place around a request: waits for an engine, and gives the place up as the block ends; an EngineError from
        it is the engine's failure. Raises EngineError when no engine took the request within `seconds`."""
        ...

    def end_session(self, session: int) -> Any:
        """Forget it; unknown sessions are ignored."""
        ...


@dataclass(slots=True)
class _Seat:
    is_up: bool = True
    num_running: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Placed."""

    engine: int


@dataclass(slots=True)
class LeastLoaded:
    """A session stays where it was, so that its cache is met again; a new one goes to the engine with the fewest
    requests, the one that was chosen longest ago among equals."""

    _seats: list[_Seat] = field(default_factory=list)
    _homes: dict[int, int] = field(default_factory=dict)
    _last: list[int] = field(default_factory=list)
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def add_engine(self) -> int:
        self._seats.append(_Seat())
        self._last.append(len(self._last))
        return len(self._seats) - 1

    def engine_up(self, engine: int) -> None:
        self._seats[engine].is_up = True
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)

    def engine_down(self, engine: int) -> None:
        self._seats[engine].is_up = False
        self._homes = {s: e for s, e in self._homes.items() if e != engine}

    def set_version(self, engine: int, version: int) -> None:
        """Nothing is known of caches here."""

    def end_session(self, session: int) -> None:
        self._homes.pop(session, None)

    def choose(self, session: int) -> int | None:
        """The session's engine; None while every engine is down."""
        up = [e for e, seat in enumerate(self._seats) if seat.is_up]
        if not up:
            return None
        home = self._homes.get(session)
        engine = home if home is not None else min(up, key=lambda e: (self._seats[e].num_running, self._last.index(e)))
        self._homes[session] = engine
        self._last.remove(engine)
        self._last.append(engine)
        return engine

    @asynccontextmanager
    async def place(self, ids: Ids | Sequence[int], *, session: int, seconds: float) -> AsyncIterator[Place]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (engine := self.choose(session)) is None:
            if loop.time() >= deadline:
                raise EngineError(f"session {session}: none of {len(self._seats)} engines is up after {seconds:g} s")
            changed = loop.create_future()
            self._waiting.append(changed)
            await asyncio.wait([changed], timeout=deadline - loop.time())
        self._seats[engine].num_running += 1
        try:
            yield Place(engine)
        finally:
            self._seats[engine].num_running -= 1
