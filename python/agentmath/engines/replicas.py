"""RolloutEngine over engine processes: requests are routed, lost ones resume elsewhere, dead processes come back.

A request keeps what it received. When its process is lost, the rest is asked for at another one with those tokens as
context: nothing is lost, nothing is sampled twice. A process serves only after it has shown, on fixed prompts, that it
computes with the current weights.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.parity import Expected, Parity, check
from agentmath.engines.process import EngineProcess
from agentmath.engines.routing import Router
from agentmath.engines.shared_weights import SharedWeights
from agentmath.engines.wire import EngineLost

_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """Of [engine]."""

    max_context_tokens: int
    keeps_kv: bool
    parity_tolerance: float
    max_restarts: int
    """Of one process in the life of the run."""
    place_seconds: float
    """How long a request waits for an engine that is up."""


@dataclass(slots=True, kw_only=True)
class _Request:
    """One call of generate, over as many processes as it takes."""

    context: np.ndarray
    sampling: Sampling
    session: int
    parts: list[Completion] = field(default_factory=list)
    process: EngineProcess | None = None
    key: int = 0
    is_aborted: bool = False

    @property
    def num_received(self) -> int:
        return sum(len(p.ids) for p in self.parts)

    @property
    def feed(self) -> np.ndarray:
        """The context of what is still to be sampled."""
        return np.concatenate([self.context, *(p.ids for p in self.parts)])

    @property
    def rest(self) -> Sampling:
        """How it is to be sampled: the same draws go on where they stopped."""
        received = self.num_received
        return replace(
            self.sampling,
            max_new_tokens=self.sampling.max_new_tokens - received,
            first_draw=self.sampling.first_draw + received,
        )

    def whole(self, reason: StopReason, stop_text: str | None = None) -> Completion:
        empty = Completion.unsampled([], reason)
        parts = [empty, *self.parts]
        return Completion(
            ids=np.concatenate([p.ids for p in parts]),
            logprobs=np.concatenate([p.logprobs for p in parts]),
            versions=np.concatenate([p.versions for p in parts]),
            stop_reason=reason,
            stop_text=stop_text,
        )


class ReplicatedEngine:
    """Belongs to one event loop. open() before anything else, close() at the end."""

    shares_weights = False

    def __init__(
        self,
        processes: Sequence[EngineProcess],
        router: Router,
        settings: ReplicaSettings,
        *,
        version: int = 0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """say: told of lost and restarted processes; by default the log."""
        self.version = version
        """Weight version of the tokens sampled next."""
        self.parity: Parity | None = None
        """Of the last weight update, the worst of all processes."""
        self.num_restarts = [0] * len(processes)
        self._processes, self._router, self._settings = [*processes], router, settings
        self._say = say or logging.getLogger(__name__).warning
        self._requests: dict[int, _Request] = {}
        self._homes: dict[int, EngineProcess] = {}
        self._weights: SharedWeights | None = None
        self._expected: Expected | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._gone: dict[int, str] = {}
        self._updating = asyncio.Lock()

    async def open(self) -> None:
        """Start every process. Raises EngineError, or ConfigError, when one does not start; none is left then."""
        starts = [asyncio.ensure_future(p.start()) for p in self._processes]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await self.close()
            raise
        for number in range(len(self._processes)):
            assert self._router.add_engine() == number
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(number)) for number in range(len(self._processes))]

    async def close(self) -> None:
        """End every process; nothing is left."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for process in self._processes:
            process.close()
        if self._weights is not None:
            self._weights.close()

    # ---- requests ----

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        """Continue ids until a stop text, an end token or a limit.

        Raises EngineError for a request that cannot be served, and when no process is left to serve it.
        """
        self._check(ids, session)
        limit = min(sampling.max_new_tokens, self._settings.max_context_tokens - len(ids))
        request = _Request(
            context=np.asarray(ids, dtype=np.int32), sampling=replace(sampling, max_new_tokens=limit), session=session
        )
        self._requests[session] = request
        try:
            while True:
                try:
                    return await self._attempt(request)
                except EngineLost:
                    if len(self._gone) == len(self._processes):
                        raise EngineError(self._obituary()) from None
                    await asyncio.sleep(0)  # let the process's keeper take it out of the router
        finally:
            if self._requests.get(session) is request:
                del self._requests[session]

    async def _attempt(self, request: _Request) -> Completion:
        """Ask one process for what is left. Raises EngineLost when it is lost; the request keeps what it sent."""
        if request.num_received >= request.sampling.max_new_tokens:
            return request.whole(StopReason.LENGTH)
        feed = request.feed
        async with self._router.place(feed, session=request.session, seconds=self._settings.place_seconds) as placed:
            if request.is_aborted:
                return request.whole(StopReason.ABORTED)
            process = self._processes[placed.engine]
            self._move(request.session, process)
            key, stream = process.open(feed, request.rest, session=request.session)
            request.process, request.key = process, key
            try:
                reason, stop_text = await stream.ended
            except EngineLost:
                request.parts.append(stream.completion(StopReason.ABORTED))
                raise
            finally:
                process.forget(key)
                request.process = None
            request.parts.append(stream.completion(reason, stop_text))
            return request.whole(reason, stop_text)

    def _move(self, session: int, process: EngineProcess) -> None:
        """Tell the engine that a session leaves that it need not keep its cache."""
        home = self._homes.get(session)
        if home is not None and home is not process:
            home.close_session(session)
        self._homes[session] = process

    def close_session(self, session: int) -> None:
        """Forget a session; a running request of it ends as aborted. Unknown sessions are ignored."""
        self._abort(session)
        home = self._homes.pop(session, None)
        if home is not None:
            home.close_session(session)
            self._router.end_session(session)

    async def abort(self, session: int) -> None:
        """End the session's running request; its partial output is returned with stop reason ABORTED."""
        self._abort(session)

    def _abort(self, session: int) -> None:
        request = self._requests.get(session)
        if request is not None:
            request.is_aborted = True
            if request.process is not None:
                request.process.abort(request.key)

    def _check(self, ids: Sequence[int], session: int) -> None:
        limit = self._settings.max_context_tokens
        if not 0 < len(ids) < limit:
            raise EngineError(
                f"session {session}: a context of {len(ids)} tokens cannot be continued, engine.max_context_tokens = "
                f"{limit}; give at least one token and leave room for one"
            )
        if session in self._requests:
            raise EngineError(f"session {session} has a running request; await it or abort it first")
        if len(self._gone) == len(self._processes):
            raise EngineError(self._obituary())

    def _obituary(self) -> str:
        number, why = next(reversed(self._gone.items()))
        return (
            f"no engine is left: each of {len(self._processes)} was lost more than engine.max_restarts = "
            f"{self._settings.max_restarts} times; the last one, {number}: {why}"
        )

    # ---- weights ----

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        """Send all weights to every process. The engine serves with them once check_parity() was passed too.

        Raises EngineError without tensors: the processes have weights of their own.
        """
        if tensors is None:
            raise EngineError("engine processes have weights of their own: hand over the trainer's tensors")
        async with self._updating:
            old, self._weights = self._weights, await asyncio.to_thread(SharedWeights, version, tensors)
            self._expected, self.version = None, version
            if old is not None:
                old.close()
            await self._of_all(self._load)

    async def check_parity(self, expected: Expected) -> Parity:
        """Compare every process with what the trainer says; a process that comes back later is compared too.

        Raises EngineError that names the process and how far off it is.
        """
        async with self._updating:
            self._expected, self.parity = expected, None
            await self._of_all(self._prove)
            assert self.parity is not None, self._obituary()
            return self.parity

    async def _of_all(self, call: Callable[[int], Any]) -> None:
        """Of every process that is up; one that is lost meanwhile is brought up to date before it serves again."""
        numbers = [n for n, p in enumerate(self._processes) if p.is_up]
        for result in await asyncio.gather(*map(call, numbers), return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, EngineLost):
                raise result
        if len(self._gone) == len(self._processes):
            raise EngineError(self._obituary())

    async def _load(self, number: int) -> None:
        assert self._weights is not None
        await self._processes[number].update_weights(
            self._weights.version, self._weights.path, keeps_kv=self._settings.keeps_kv
        )
        self._router.set_version(number, self._weights.version)

    async def _prove(self, number: int) -> None:
        assert self._expected is not None
        process = self._processes[number]
        found = await process.score(self._expected.rows)
        parity = check(process.label, self._expected, found, self._settings.parity_tolerance)
        if self.parity is None or parity.mean > self.parity.mean:
            self.parity = parity

    # ---- operations ----

    async def pause(self, *, keeps_kv: bool = True) -> None:
        """Decode nothing until resume()."""
        await self._of_all(lambda n: self._processes[n].pause(keeps_kv=keeps_kv))

    async def resume(self) -> None:
        await self._of_all(lambda n: self._processes[n].resume())

    async def reset_prefix_cache(self) -> None:
        """No later request meets a cached prefix of now."""
        await self._of_all(lambda n: self._processes[n].reset_prefix_cache())

    async def check_health(self) -> None:
        """Raises EngineError when a process that is up does not answer well."""
        await self._of_all(lambda n: self._processes[n].check_health())

    async def stats(self) -> list[Mapping[str, float]]:
        """Of each process that is up."""
        return [await p.stats() for p in self._processes if p.is_up]

    @property
    def pids(self) -> list[int | None]:
        return [p.pid for p in self._processes]

    # ---- processes ----

    async def _keep(self, number: int) -> None:
        """Bring a process back when it is lost, until it was lost too often."""
        process = self._processes[number]
        while True:
            assert process.lost is not None
            why = await asyncio.shield(process.lost)
            self._router.engine_down(number)
            while not process.is_up:
                if self.num_restarts[number] >= self._settings.max_restarts:
                    self._gone[number] = why
                    self._say(f"{why}; it is not started again")
                    self._wake_if_none_is_left(number)
                    return
                delay = min(_BACKOFF_SECONDS * 2 ** self.num_restarts[number], _MAX_BACKOFF_SECONDS)
                self.num_restarts[number] += 1
                self._say(f"{why}; its requests go on elsewhere, it is started again in {delay:g} s")
                await asyncio.sleep(delay)
                try:
                    await process.start()
                    await self._bring_up_to_date(number)
                except EngineError as error:
                    why = str(error)
                    process.give_up(why)
            self._router.engine_up(number)

    async def _bring_up_to_date(self, number: int) -> None:
        """Give a restarted process the current weights, and make it prove them."""
        async with self._updating:
            if self._weights is not None:
                await self._load(number)
            if self._expected is not None:
                await self._prove(number)

    def _wake_if_none_is_left(self, number: int) -> None:
        """Requests that wait for a place must learn that there will be none."""
        if len(self._gone) == len(self._processes):
            self._router.engine_up(number)
