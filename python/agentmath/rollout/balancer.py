"""Where a request runs: the face of csrc/rollout/balancer, which balancer.h describes in full.

    balancer = Balancer(BalancerSettings())
    engines = [balancer.add_engine(kv_tokens=340_000) for _ in range(4)]
    async with balancer.place(ids, session=7, seconds=60) as placement:
        completion = await client[placement.engine].generate(ids, ...)

The scheduler decides what may run and when, the balancer where. It drives no engine: whoever does tells it of
engines that came, went or have new weights, and of how each request ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from agentmath._C import balancer as core
from agentmath.core.errors import ConfigError, EngineError

Policy = Literal["agentmath", "breakable", "round_robin", "least", "power_of_two", "consistent_hash", "radix", "score"]
Ending = Literal["finished", "failed", "cancelled"]
Ids = npt.NDArray[np.integer[Any]] | Sequence[int]
Placement = core.Placement
EngineView = core.EngineView
Stats = core.Stats
WEIGHT_UNIT = core.Balancer.WEIGHT_UNIT
"""Weights are integers in units of 1 / WEIGHT_UNIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerSettings:
    """Policy and its numbers; defaults are those of csrc/rollout/balancer.h."""

    policy: Policy = "breakable"
    base_tokens: int = 4096
    """L_base of w = floor(L / L_base) + w_base (AgentMath, "Prefix-Aware Weighted Load Balancing")."""
    base_weight: float = 1.0
    """w_base."""
    leave_factor: float = 1.2
    """breakable: a session may leave when W_home > leave_factor * W_min + w + leave_slack."""
    leave_slack: float = 2.0
    miss_weight: float = 0.5
    """breakable: weight of each base_tokens of context that an engine has not cached."""
    radix_match: float = 0.3
    """radix: share of the prompt that must be cached for it to decide."""
    radix_gap: int = 64
    """radix: queues decide when they differ by more than this, and by more than radix_ratio."""
    radix_ratio: float = 1.5
    score_load: float = 1.0
    """score: weight of an engine's load, relative to the mean, against the cached share."""
    kv_share: float = 0.8
    """An engine that is not idle gets no new lease beyond this share of its KV tokens."""
    block_tokens: int = 16
    """Granularity of the prefix index; the engines' own block size or a multiple of it."""
    index_bytes: int = 64 << 20
    """Hard cap on the prefix index, 46 bytes a block; 0 turns it off."""
    max_sessions: int = 1 << 16
    """Idle sessions that are remembered."""
    breaker_failures: int = 3
    """Failures in a row after which an engine gets nothing for breaker_nanoseconds, then one probe; 0 is never."""
    breaker_nanoseconds: int = 5_000_000_000
    seed: int = 0


class Balancer:
    """One balancer for a set of engines, numbered as they are added. Calls may come from any thread; where place() is
    used, all of them come from its event loop.

    acquire() gives a lease, which is held until release() or, while a tool runs, pause(). An engine or lease number
    that was never given raises ValueError; a lease that was closed before is counted and ignored.
    """

    def __init__(self, settings: BalancerSettings, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """clock: nanoseconds. Raises ConfigError that names the setting."""
        given = core.Settings()
        try:
            for field in fields(settings):
                setattr(given, field.name, getattr(settings, field.name))
            self._core = core.Balancer(given)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"balancer: {error}") from None
        self.settings = settings
        self._clock = clock
        self._waiting: list[asyncio.Future[None]] = []

    # ---- engines ----

    def add_engine(self, *, capacity: float = 1.0, kv_tokens: int = 0, version: int = 0) -> int:
        """Its number. capacity: speed relative to the others. kv_tokens: size of its KV cache; 0 sets no bound."""
        try:
            engine = self._core.add_engine(capacity, kv_tokens, version)
        except ValueError as error:
            raise ConfigError(f"balancer: {error}") from None
        self._wake()
        return engine

    def engine_up(self, engine: int) -> None:
        """It is back, or no longer drains."""
        self._core.engine_up(engine)
        self._wake()

    def engine_down(self, engine: int) -> list[int]:
        """It is gone with its cache. Returns its running leases, which are closed: their requests go elsewhere."""
        lost = self._core.engine_down(engine)
        self._wake()
        return lost

    def drain(self, engine: int) -> None:
        """It finishes what it has and gets nothing new."""
        self._core.drain(engine)
        self._wake()

    def set_version(self, engine: int, version: int) -> None:
        """Its weights changed and its cache is void; open leases stay."""
        self._core.set_version(engine, version)
        self._wake()

    def clear_cache(self, engine: int) -> None:
        """Its cache is void, its weights are the same."""
        self._core.clear_cache(engine)

    def drop_cached(self, engine: int, ids: Ids, *, kept_tokens: int, session: int | None = None) -> None:
        """The engine reports that of this context only the first kept_tokens are still cached."""
        self._core.drop_cached(engine, _array(ids), _number(session), kept_tokens)

    def adopt(self, engine: int, ids: Ids, *, session: int) -> None:
        """After a restart of this process: a session's context is still cached at the engine."""
        self._core.adopt(engine, _array(ids), session)

    # ---- requests ----

    def acquire(
        self, ids: Ids, *, session: int | None = None, min_version: int = core.Balancer.ANY_VERSION
    ) -> Placement:
        """Decide once, at once; placement.admission says whether there is a lease. ids: int32 [L], the whole context;
        an array of another type, or a list, is copied. min_version: engines with older weights are left out."""
        return self._core.acquire(_array(ids), _number(session), min_version, self._clock())

    def acquire_blocks(
        self, names: npt.NDArray[np.uint64], num_tokens: int, *, session: int | None = None
    ) -> Placement:
        """The same for a context of which only a name for each block is known, as in request traces."""
        return self._core.acquire_blocks(names, num_tokens, _number(session), core.Balancer.ANY_VERSION, self._clock())

    def acquire_length(
        self, num_tokens: int, *, session: int | None = None, group: int = 0, group_tokens: int = 0
    ) -> Placement:
        """The same where only lengths are known: a session counts on what it had computed, and the first group_tokens
        are the same in all requests of a group."""
        return self._core.acquire_length(
            num_tokens,
            session=_number(session),
            group=group,
            group_tokens=group_tokens,
            min_version=core.Balancer.ANY_VERSION,
            now=self._clock(),
        )

    def progress(self, lease: int, num_tokens: int) -> bool:
        """The context has num_tokens now. False: the lease was closed before (likewise below)."""
        return self._core.progress(lease, num_tokens)

    def pause(self, lease: int) -> bool:
        """The request has ended, a tool runs, and the session's weight stays until it goes on."""
        done = self._core.pause(lease, self._clock())
        self._wake()
        return done

    def release(self, lease: int, ending: Ending = "finished") -> bool:
        done = self._core.release(lease, ending, self._clock())
        self._wake()
        return done

    def end_session(self, session: int) -> bool:
        """Forget it, and let go of its paused weight. False: it is not known."""
        done = self._core.end_session(session)
        self._wake()
        return done

    @asynccontextmanager
    async def place(
        self, ids: Ids, *, session: int | None = None, min_version: int = core.Balancer.ANY_VERSION, seconds: float
    ) -> AsyncIterator[Placement]:
        """A lease around a request: waits for an engine, and closes the lease as the block ends (an EngineError from
        it is the engine's failure, cancellation is not).

        Raises EngineError when no engine took it within `seconds`, or when none ever can.
        """
        array = _array(ids)
        placement = await self._wait(array, session, min_version, seconds)
        ending: Ending = "cancelled"
        try:
            yield placement
            ending = "finished"
        except EngineError:
            ending = "failed"
            raise
        finally:
            self.release(placement.lease, ending)

    async def _wait(
        self, ids: npt.NDArray[np.int32], session: int | None, min_version: int, seconds: float
    ) -> Placement:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            placement = self.acquire(ids, session=session, min_version=min_version)
            if placement.admission == "placed":
                return placement
            if placement.admission == "too_long":
                raise EngineError(
                    f"a context of {len(ids)} tokens fits into no engine's KV cache: lower rollout.max_context_tokens"
                )
            left = deadline - loop.time()
            if left <= 0:
                raise EngineError(
                    f"no engine took a request of {len(ids)} tokens within {seconds:g} s ({placement.admission}).\n"
                    + self.dump()
                )
            if placement.retry_nanoseconds:
                left = min(left, max(placement.retry_nanoseconds - self._clock(), 0) * 1e-9 + 1e-3)
            changed = loop.create_future()
            self._waiting.append(changed)
            try:
                await asyncio.wait([changed], timeout=left)
            finally:
                if changed in self._waiting:
                    self._waiting.remove(changed)

    def _wake(self) -> None:
        """All that wait ask again, in the order in which they came."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for changed in waiting:
                if not changed.done():
                    changed.set_result(None)

    # ---- state ----

    def look(self, engine: int) -> EngineView:
        return self._core.look(engine)

    def stats(self) -> Stats:
        return self._core.stats()

    def dump(self) -> str:
        """The whole state as text, for people."""
        return self._core.dump()


def _number(session: int | None) -> int:
    return core.Balancer.NO_SESSION if session is None else session


def _array(ids: Ids) -> npt.NDArray[np.int32]:
    array = np.ascontiguousarray(ids, dtype=np.int32)
    if array.ndim != 1:
        raise ValueError(f"ids have the shape {array.shape}, they must be one context: [L]")
    return array
