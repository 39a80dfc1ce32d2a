"""The requests in work: their slots, their passes through the model, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from agentmath.config.engine import EngineSection
from agentmath.core.errors import EngineError
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import StopReason
from agentmath.engines.passes import Forward, Pass, PrepareOneToken, next_chunks
from agentmath.engines.requests import Output, Request, Session
from agentmath.engines.rows import Rows
from agentmath.engines.sampler import sample
from agentmath.engines.slots import SlotTable
from agentmath.engines.stops import StopFinder
from agentmath_kernels.rows import CacheShape, KeyValueCache

SPARE_SLOTS = 0.25
"""Slots beyond the rows, as a share of them: sessions away at a tool keep their cache while others decode."""


class Batch:
    """Synchronous part of the embedded engine. A request is waiting for its context to be cached, or decoding in a row;
    a request whose context equals another's of the same admission waits for that one and copies its cache."""

    def __init__(
        self,
        *,
        forward: Forward,
        head: Callable[[], Tensor],
        shape: CacheShape,
        tokenizer: Tokenizer,
        section: EngineSection,
        version: int,
        prepare: PrepareOneToken,
    ) -> None:
        self.version, self.vocab_size = version, head().shape[0]
        self._forward, self._head, self._prepare = forward, head, prepare
        self._section = section
        self._slots = SlotTable(_new_cache(shape, section))
        self._stops = StopFinder(tokenizer, self.vocab_size)
        eos = np.zeros(self.vocab_size, dtype=np.bool_)
        eos[list(tokenizer.eos_ids)] = True
        self._rows = Rows(max_rows=section.max_rows, num_positions=section.max_context_tokens, eos=eos)
        self._gaps: list[int] = []
        self._waiting: list[Request] = []
        self._followers: list[Request] = []
        self._head_weight: Tensor | None = None

    @property
    def num_busy(self) -> int:
        """Requests in work."""
        return self._rows.size - len(self._gaps) + len(self._waiting) + len(self._followers)

    def admit(self, requests: Sequence[Request]) -> None:
        """Take requests in; the caller has made room and closed the gaps. Equal contexts are computed once."""
        leaders: dict[bytes, Request] = {}
        for request in requests:
            session = request.session
            request.is_admitted = True
            if session.slot is None:
                self._slots.acquire(session, self._rows.size)
            session.num_cached = _num_shared(session, request)
            if session.num_cached == 0:
                request.leader = leaders.setdefault(request.feed.tobytes(), request)
            if request.leader in (None, request):
                request.leader = None
                self._waiting.append(request)
            else:
                self._followers.append(request)

    def step(self) -> list[tuple[Session, bool]]:
        """One pass and one token for each row. Returns the sessions whose requests ended, and whether at a stop text.

        Raises EngineError when the model's numbers are not finite.
        """
        work = Pass.of(self._rows, next_chunks(self._waiting, self._section.max_prefill_tokens))
        with torch.inference_mode():
            hidden, complete = work.run(self._forward, self._slots.cache, self._prepare)
            for chunk in work.chunks:
                chunk.request.session.num_cached += len(chunk.ids)
            source = [*range(work.num_decoding), *self._start_rows(complete, work.num_decoding)]
            if not source:
                return []
            if len(complete) + work.num_decoding < len(source):
                hidden = hidden[source]
            ids, logprobs = self._sample(hidden)
        if not np.isfinite(logprobs).all():
            raise EngineError(
                f"weights of version {self.version} give log-probs that are not finite in "
                f"{int((~np.isfinite(logprobs)).sum())} of {len(logprobs)} rows; look at the last training step"
            )
        suspects = self._rows.accept(ids, logprobs, self.version)
        return [ended for row in suspects if (ended := self._end(row)) is not None]

    def _start_rows(self, complete: Sequence[Request], begin: int) -> list[int]:
        """Make rows of requests whose contexts are cached, and of those that follow them; returns, for each new row,
        the hidden state that it starts from."""
        source: list[int] = []
        for index, leader in enumerate(complete):
            self._waiting.remove(leader)
            group = [leader, *(f for f in self._followers if f.leader is leader)]
            for request in group:
                if request is not leader:
                    self._followers.remove(request)
                    self._copy_cache(leader.session, request.session)
                request.leader = None
                suspects = self._stops.suspects(request.sampling.stop) if request.sampling.stop else None
                row = self._rows.add(request, suspects)
                assert request.session.slot is not None
                self._slots.exchange(request.session.slot, row)
                source.append(begin + index)
        return source

    def _copy_cache(self, source: Session, target: Session) -> None:
        assert source.slot is not None and target.slot is not None
        self._slots.cache.copy(source.slot, target.slot, source.num_cached)
        target.num_cached = source.num_cached

    def _sample(self, hidden: Tensor) -> tuple[np.ndarray, np.ndarray]:
        if self._head_weight is None:
            self._head_weight = self._head().float()
        logits = torch.mm(hidden.float(), self._head_weight.t())
        device, size = logits.device, self._rows.size
        temperatures = self._rows.temperature[:size]
        warm = None if (temperatures == 1.0).all() else torch.from_numpy(temperatures).to(device)
        top_p = self._rows.top_p[:size]
        nucleus = None if (top_p == 1.0).all() else torch.from_numpy(top_p).to(device)
        ids, logprobs = sample(logits, torch.from_numpy(self._rows.next_uniforms()).to(device), warm, nucleus)
        return ids.cpu().numpy(), logprobs.cpu().numpy()

    def _end(self, row: int) -> tuple[Session, bool] | None:
        """End the row's request if its newest token ends it."""
        request, text = self._rows.requests[row], None
        stop = request.sampling.stop
        if self._rows.ended_by_eos(row):
            reason = StopReason.EOS
        elif stop and (text := self._stops.find(stop, self._rows.tail(row, self._stops.window(stop)))):
            reason = StopReason.STOP
        elif self._rows.is_full(row):
            reason = StopReason.LENGTH
        else:
            return None
        self._close_row(row)
        request.complete(reason, text)
        return request.session, reason is StopReason.STOP

    def _close_row(self, row: int) -> None:
        """Take the request out of its row; the session keeps its cache."""
        request = self._rows.requests[row]
        session = request.session
        request.output = self._rows.output(row)
        session.tokens = request.feed
        session.num_cached = int(self._rows.position[row])
        session.request = None
        self._gaps.append(row)

    def close_gaps(self) -> None:
        """Move the last rows into the places of ended ones, so that the decoding slots are contiguous again."""
        for row in sorted(self._gaps, reverse=True):
            last = self._rows.size - 1
            if row != last:
                mover = self._rows.requests[last].session
                mover.num_cached = int(self._rows.position[last])
                self._slots.exchange(last, row)
            self._rows.move_last(row)
        self._gaps.clear()

    def withdraw(self, request: Request) -> None:
        """End a request in work, as aborted; what it sampled is returned."""
        session = request.session
        if request in self._rows.requests:
            self._close_row(self._rows.requests.index(request))
        else:
            session.tokens = request.feed
            self._stop_waiting(request)
        session.request = None
        request.abort()

    def _stop_waiting(self, request: Request) -> None:
        """Take a request out whose context is not cached yet; the first of its followers is computed in its place."""
        if request in self._followers:
            self._followers.remove(request)
            return
        group = [f for f in self._followers if f.leader is request]
        position = self._waiting.index(request)
        self._waiting[position : position + 1] = group[:1]
        for follower in group:
            follower.leader = None if follower is group[0] else group[0]
        self._followers = [f for f in self._followers if f not in group[:1]]

    def partial(self, request: Request) -> Output:
        """What it sampled so far, as copies."""
        rows = self._rows
        return rows.output(rows.requests.index(request)) if request in rows.requests else request.output

    def release(self, session: Session) -> None:
        """Forget the session's cache."""
        self._slots.release(session)

    def change_version(self, version: int) -> None:
        """Drop everything computed with the old weights; decoding requests wait for their context anew."""
        self.version, self._head_weight = version, None
        self.close_gaps()
        for row, request in enumerate(self._rows.requests):
            request.output = self._rows.output(row)
            self._waiting.append(request)
        self._rows.clear()
        busy = [*self._waiting, *self._followers]
        self._slots.clear()
        for request in busy:
            request.session.num_cached = 0
            self._slots.acquire(request.session, 0)

    def clear(self) -> None:
        """Drop all requests and caches."""
        self._rows.clear()
        self._gaps.clear()
        self._waiting.clear()
        self._followers.clear()
        self._slots.clear()


def _num_shared(session: Session, request: Request) -> int:
    """Positions of the session's slot that hold the request's context; the last token is always fed."""
    feed = request.feed
    limit = min(session.num_cached, len(feed) - 1)
    differs = np.flatnonzero(session.tokens[:limit] != feed[:limit])
    return int(differs[0]) if len(differs) else limit


def _new_cache(shape: CacheShape, section: EngineSection) -> KeyValueCache:
    num_slots = section.max_rows + max(1, int(section.max_rows * SPARE_SLOTS))
    try:
        return KeyValueCache(shape, num_slots=num_slots, num_positions=section.max_context_tokens)
    except RuntimeError as error:
        width = shape.num_key_value_heads * shape.head_dim * shape.dtype.itemsize
        size = 2 * shape.num_layers * num_slots * section.max_context_tokens * width
        raise EngineError(
            f"the key/value cache needs {size / 2**30:.1f} GiB ({num_slots} rows of {section.max_context_tokens} "
            "tokens) and could not be allocated; lower engine.max_rows or engine.max_context_tokens"
        ) from error
