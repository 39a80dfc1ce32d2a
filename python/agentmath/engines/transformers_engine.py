"""The embedded engine: continuous batching over a model that lives in this process.

    generate -> queue -> admission -> context into the cache -> one token a step -> completion

Everything runs on the caller's event loop; between two steps the loop turns, so that tools make progress. What a step
holds is a function of tokens alone, never of how fast a tool was: see turnstile.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from agentmath.config.engine import EngineSection
from agentmath.core.errors import EngineError
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import Completion, Sampling
from agentmath.engines.batch import Batch
from agentmath.engines.compiled import best_one_token
from agentmath.engines.passes import Forward, PrepareOneToken
from agentmath.engines.requests import Output, Request, Session
from agentmath.engines.turnstile import Turnstile
from agentmath_kernels.rows import CacheShape


class TransformersEngine:
    """RolloutEngine over a model in this process, whose weights it shares."""

    shares_weights = True

    def __init__(
        self,
        *,
        forward: Forward,
        head: Callable[[], Tensor],
        shape: CacheShape,
        tokenizer: Tokenizer,
        section: EngineSection,
        version: int = 0,
        prepare: PrepareOneToken | None = None,
        awaits_tools: bool = True,
    ) -> None:
        """head() is the vocabulary projection [V, H]; prepare: attention of decoding rows, by default the fastest one.
        awaits_tools: a session that stopped at a stop text is expected back at a fixed step.

        Raises EngineError when the cache does not fit into memory.
        """
        self._section = section
        self._batch = Batch(
            forward=forward,
            head=head,
            shape=shape,
            tokenizer=tokenizer,
            section=section,
            version=version,
            prepare=prepare or best_one_token(shape),
        )
        self._awaits_tools = awaits_tools
        self._sessions: dict[int, Session] = {}
        self._queue: list[Request] = []
        self._has_ended = False
        self._turnstile = Turnstile(latency_steps=section.tool_latency_steps, wait_seconds=section.tool_wait_seconds)
        self._may_step = asyncio.Event()
        self._may_step.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """Weight version of the tokens sampled next."""
        return self._batch.version

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        """Continue ids until a stop text, an end token or a limit.

        Raises EngineError for a request that cannot be served, and when a step fails.
        """
        self._check(ids, sampling, session)
        self._start()
        known = self._sessions.setdefault(session, Session(key=session))
        known.is_closed = False
        request = self._new_request(known, ids, sampling)
        known.request = request
        self._queue.append(request)
        self._turnstile.enter(known)
        try:
            return await request.future
        except asyncio.CancelledError:
            self._withdraw(request)
            raise

    async def rejoin(self, session: int) -> None:
        """Wait for the step at which a session that paused goes on: what its owner does then does not depend on how
        long its tool took. Returns at once for a session that is not waited for."""
        known = self._sessions.get(session)
        if known is None or not known.is_away or self._task is None or self._task.done():
            return
        known.rejoining = asyncio.get_running_loop().create_future()
        self._turnstile.signal()
        try:
            await known.rejoining
        finally:
            known.rejoining = None

    def close_session(self, session: int) -> None:
        """Forget a session; a running request of it ends as aborted. Unknown sessions are ignored."""
        known = self._sessions.get(session)
        if known is None:
            return
        if known.request is not None:
            self._withdraw(known.request)
        known.is_closed, known.num_cached = True, 0
        self._turnstile.signal()
        if self._task is None or self._task.done():
            self._forget_closed(at_once=True)

    async def abort(self, session: int) -> None:
        """End the session's running request; its partial output is returned with stop reason ABORTED."""
        known = self._sessions.get(session)
        if known is not None and known.request is not None:
            self._withdraw(known.request)
            self._turnstile.signal()

    async def pause(self, *, keeps_kv: bool) -> None:
        """Take no step until resume(); requests stay where they are, with their cache or without."""
        self._may_step.clear()
        if not keeps_kv:
            self._batch.change_version(self.version)

    def resume(self) -> None:
        """Go on."""
        self._may_step.set()

    def partial(self, session: int) -> Output:
        """What the session's running request sampled so far; empty when none runs."""
        known = self._sessions.get(session)
        return Output() if known is None or known.request is None else self._batch.partial(known.request)

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        """Later tokens carry `version`. Caches are dropped; running requests go on with the new weights.

        Raises EngineError for tensors: the weights are the trainer's own.
        """
        if tensors is not None:
            raise EngineError(
                f"the embedded engine decodes with the trainer's own weights and was handed {len(tensors)} tensors; "
                "pass None"
            )
        self._batch.change_version(version)

    def _check(self, ids: Sequence[int], sampling: Sampling, session: int) -> None:
        limit, vocab = self._section.max_context_tokens, self._batch.vocab_size
        if not 0 < len(ids) < limit:
            raise EngineError(
                f"session {session}: a context of {len(ids)} tokens cannot be continued, engine.max_context_tokens = "
                f"{limit} leaves no room; shorten it, raise the limit, or lower rollout.max_context_tokens"
                if len(ids)
                else f"session {session}: the context is empty; give at least one token"
            )
        if min(ids) < 0 or max(ids) >= vocab:
            raise EngineError(
                f"session {session}: token ids run from {min(ids)} to {max(ids)}, the model has 0 to {vocab - 1}"
            )
        is_possible = sampling.max_new_tokens >= 1 and sampling.temperature >= 0 and 0 < sampling.top_p <= 1
        if not is_possible or "" in sampling.stop:
            raise EngineError(f"session {session}: cannot sample with {sampling}")
        known = self._sessions.get(session)
        if known is not None and known.request is not None and self._loop is asyncio.get_running_loop():
            raise EngineError(f"session {session} has a running request; await it or abort it first")

    def _new_request(self, session: Session, ids: Sequence[int], sampling: Sampling) -> Request:
        limit = min(sampling.max_new_tokens, self._section.max_context_tokens - len(ids))
        numbers = np.random.Generator(np.random.Philox(sampling.seed))
        draws = numbers.random(sampling.first_draw + limit, dtype=np.float32)[sampling.first_draw :]
        return Request(
            session=session,
            context=np.asarray(ids, dtype=np.int32),
            sampling=sampling,
            limit=limit,
            uniforms=draws,
            future=asyncio.get_running_loop().create_future(),
        )

    def _start(self) -> None:
        """Make sure that a task on the running loop serves the queue."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # The earlier loop ended, and whoever waited on it with it.
            self._abandon(lambda request: None)
            self._loop = loop
            self._turnstile.bind()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve())

    async def _serve(self) -> None:
        """Take steps until nobody asks and nobody is expected."""
        try:
            while await self._prepare():
                if not self._may_step.is_set():
                    await self._may_step.wait()
                    continue  # what is in work may have changed meanwhile
                ended = self._batch.step()
                self._turnstile.step += 1
                self._has_ended = bool(ended)
                for session, paused in ended:
                    session.last_step = self._turnstile.step
                    if paused and self._awaits_tools:
                        self._turnstile.pause(session)
                await asyncio.sleep(0)
        except EngineError as error:
            text = str(error)
            self._abandon(lambda request: request.fail(EngineError(text)))
        except Exception as error:  # a failed step must reach everybody who waits for it
            text = f"decoding step {self._turnstile.step} failed: {type(error).__name__}: {error}"
            self._abandon(lambda request: request.fail(EngineError(text)))
        except asyncio.CancelledError:
            self._abandon(lambda request: request.future.cancel())
            raise

    async def _prepare(self) -> bool:
        """Gather what the next step holds; False when there is nothing to do."""
        while True:
            if self._has_ended or self._batch.num_busy == 0:
                await self._turnstile.settle()
            is_back = await self._turnstile.await_due(self._sessions.values())
            if self._turnstile.release_rejoining(self._sessions.values()) or is_back:
                await self._turnstile.settle()
            self._has_ended = False
            self._forget_closed()
            self._admit()
            if self._batch.num_busy:
                return True
            if not self._turnstile.skip_idle_steps(self._sessions.values()):
                self._forget_closed(at_once=True)
                return False

    def _forget_closed(self, *, at_once: bool = False) -> None:
        """Release closed sessions, each at the step at which it would have re-entered: that step is known, the moment
        at which a tool failed and the session was closed is not."""
        closed = [s for s in self._sessions.values() if s.is_closed]
        for session in [s for s in closed if at_once or self._turnstile.admits(s)]:
            self._batch.release(session)
            del self._sessions[session.key]

    def _admit(self) -> None:
        """Move requests from the queue into the batch: those whose cache is kept first, then by session."""
        self._batch.close_gaps()
        room = self._section.max_rows - self._batch.num_busy
        ready = [r for r in self._queue if self._turnstile.admits(r.session)]
        ready.sort(key=lambda r: (r.session.slot is None, r.session.key))
        for request in ready[:room]:
            self._queue.remove(request)
            request.session.due = None
        self._batch.admit(ready[:room])

    def _withdraw(self, request: Request) -> None:
        """End a request that is queued or running, as aborted."""
        if request.session.request is not request:
            return
        if request in self._queue:
            self._queue.remove(request)
            request.session.request = None
            request.abort()
        else:
            self._batch.withdraw(request)

    def _abandon(self, tell: Callable[[Request], object]) -> None:
        """Drop all requests and caches."""
        requests = [s.request for s in self._sessions.values() if s.request is not None]
        self._batch.clear()
        self._queue.clear()
        self._has_ended = False
        for session in self._sessions.values():
            session.request = session.due = None
        if self._loop is not None and not self._loop.is_closed():
            self._turnstile.release_rejoining(self._sessions.values())
        for request in requests:
            tell(request)
