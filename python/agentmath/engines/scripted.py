"""An engine that says what it is told to: for tests and for replaying stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentmath.core.errors import EngineError
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.stops import StopFinder

Line = str | Sequence[int]
"""What is said in one request, as text or as ids."""


class ScriptedEngine:
    """RolloutEngine that says a session's lines one after another, cut at stops and limits.

    A request whose context is what the session's last request left goes on with the rest of its line; anything put in
    between drops that rest, and the next line begins. A line that runs out without an end token, a stop text or a limit
    is ended as if the end token followed. A worked example: script {7: ["<code>1</code> so", "2"]}, asked twice with an
    output in between, says "<code>1</code>" and then "2".
    """

    def __init__(
        self,
        script: Mapping[int, Sequence[Line]],
        tokenizer: Tokenizer,
        *,
        logprob: float = -1.0,
        version: int = 0,
        max_context_tokens: int = 1 << 20,
        line_end: Literal[StopReason.EOS, StopReason.LENGTH] = StopReason.EOS,
    ) -> None:
        """logprob: of every token said. line_end: LENGTH ends lines as if a token limit had cut them."""
        self._script = {session: list(lines) for session, lines in script.items()}
        self._tokenizer = tokenizer
        self._stops = StopFinder(tokenizer, 0)
        self._logprob, self._max_context_tokens, self._line_end = logprob, max_context_tokens, line_end
        self._left: dict[int, tuple[list[int], list[int]]] = {}
        self._aborted: set[int] = set()
        self.version = version
        self.requests: list[tuple[int, int, Sampling]] = []
        """(session, length of the context, sampling) of every request, in order."""
        self.said: dict[int, list[list[int]]] = {}
        """Lines that were begun, whole, by session."""
        self.ran_out: set[int] = set()
        """Sessions that asked for a line more than they have."""
        self.closed: list[int] = []

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        """What the session says next. Raises EngineError for no line left, and for a context that leaves no room."""
        self.requests.append((session, len(ids), sampling))
        if not 0 < len(ids) < self._max_context_tokens:
            raise EngineError(f"session {session}: a context of {len(ids)} of {self._max_context_tokens} tokens")
        context = [int(i) for i in ids]
        line = self._line(session, context)
        await asyncio.sleep(0)
        if session in self._aborted:
            self._aborted.discard(session)
            return self._completion([], StopReason.ABORTED, None)
        done = self._cut(context, line, sampling)
        self._left[session] = (context + done.ids.tolist(), line[len(done.ids) :])
        return done

    def close_session(self, session: int) -> None:
        """Note that the session was closed."""
        self.closed.append(session)

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        """Later tokens carry `version`."""
        self.version = version

    async def abort(self, session: int) -> None:
        """End the session's running request, if it is waiting to be answered."""
        self._aborted.add(session)

    def _line(self, session: int, context: list[int]) -> list[int]:
        """The rest of the line that was interrupted, if nothing was put behind it, else the next line."""
        before, rest = self._left.pop(session, ([], []))
        if rest and before == context:
            return rest
        lines = self._script.get(session)
        if not lines:
            self.ran_out.add(session)
            raise EngineError(f"session {session}: the script has no line for request {len(self.requests)}")
        line = lines.pop(0)
        ids = self._tokenizer.encode(line, allow_special=True) if isinstance(line, str) else [int(i) for i in line]
        self.said.setdefault(session, []).append(ids)
        return ids

    def _cut(self, context: list[int], said: list[int], sampling: Sampling) -> Completion:
        limit = min(sampling.max_new_tokens, self._max_context_tokens - len(context))
        window = self._stops.window(sampling.stop) if sampling.stop else 0
        tail = context[-window:] if window else []
        for n, token in enumerate(said[:limit], start=1):
            if token in self._tokenizer.eos_ids:
                return self._completion(said[:n], StopReason.EOS, None)
            if sampling.stop:
                tail.append(token)
                if self._stops.is_suspect(sampling.stop, token) and (
                    text := self._stops.find(sampling.stop, tail[-window:])
                ):
                    return self._completion(said[:n], StopReason.STOP, text)
                if len(tail) > 2 * window:
                    del tail[:-window]
        if len(said) >= limit:
            return self._completion(said[:limit], StopReason.LENGTH, None)
        if self._line_end is StopReason.LENGTH:
            return self._completion(said, StopReason.LENGTH, None)
        return self._completion([*said, self._tokenizer.eos_ids[0]], StopReason.EOS, None)

    def _completion(self, ids: list[int], reason: StopReason, text: str | None) -> Completion:
        return Completion(
            ids=np.asarray(ids, dtype=np.int32),
            logprobs=np.full(len(ids), self._logprob, dtype=np.float32),
            versions=np.full(len(ids), self.version, dtype=np.int32),
            stop_reason=reason,
            stop_text=text,
        )
