"""An engine that says what it is told to: for tests and for replaying stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentmath.core.errors import EngineError
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.stops import StopFinder

Line = str | Sequence[int]
"""What is said in one request, as text or as ids."""


class ScriptedEngine:
    """RolloutEngine whose n-th request of a session gets the session's n-th line, cut at stops and limits.

    A line that runs out without an end token, a stop text or a limit is ended as if the end token followed. A worked
    example: script {7: ["<code>1</code>", "2"]} answers two requests of session 7.
    """

    def __init__(
        self,
        script: Mapping[int, Sequence[Line]],
        tokenizer: Tokenizer,
        *,
        logprob: float = -1.0,
        version: int = 0,
        max_context_tokens: int = 1 << 20,
    ) -> None:
        """logprob: of every token said."""
        self._script = {session: list(lines) for session, lines in script.items()}
        self._tokenizer = tokenizer
        self._stops = StopFinder(tokenizer, 0)
        self._logprob, self._max_context_tokens = logprob, max_context_tokens
        self._aborted: set[int] = set()
        self.version = version
        self.requests: list[tuple[int, tuple[int, ...], Sampling]] = []
        """(session, context, sampling) of every request, in order."""
        self.closed: list[int] = []

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        """The session's next line. Raises EngineError when there is none, or when the context leaves no room."""
        self.requests.append((session, tuple(int(i) for i in ids), sampling))
        if not 0 < len(ids) < self._max_context_tokens:
            raise EngineError(f"session {session}: a context of {len(ids)} of {self._max_context_tokens} tokens")
        lines = self._script.get(session)
        if not lines:
            raise EngineError(f"session {session}: the script has no line for request {len(self.requests)}")
        line = lines.pop(0)
        said = self._tokenizer.encode(line, allow_special=True) if isinstance(line, str) else [int(i) for i in line]
        await asyncio.sleep(0)
        if session in self._aborted:
            self._aborted.discard(session)
            return self._completion([], StopReason.ABORTED, None)
        return self._cut(list(ids), said, sampling)

    def close_session(self, session: int) -> None:
        """Note that the session was closed."""
        self.closed.append(session)

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        """Later tokens carry `version`."""
        self.version = version

    async def abort(self, session: int) -> None:
        """End the session's running request, if it is waiting to be answered."""
        self._aborted.add(session)

    def _cut(self, context: list[int], said: list[int], sampling: Sampling) -> Completion:
        limit = min(sampling.max_new_tokens, self._max_context_tokens - len(context))
        for n, token in enumerate(said[:limit], start=1):
            if token in self._tokenizer.eos_ids:
                return self._completion(said[:n], StopReason.EOS, None)
            if sampling.stop:
                tail = [*context, *said[:n]][-self._stops.window(sampling.stop) :]
                if text := self._stops.find(sampling.stop, tail):
                    return self._completion(said[:n], StopReason.STOP, text)
        if len(said) >= limit:
            return self._completion(said[:limit], StopReason.LENGTH, None)
        return self._completion([*said, self._tokenizer.eos_ids[0]], StopReason.EOS, None)

    def _completion(self, ids: list[int], reason: StopReason, text: str | None) -> Completion:
        return Completion(
            ids=np.asarray(ids, dtype=np.int32),
            logprobs=np.full(len(ids), self._logprob, dtype=np.float32),
            versions=np.full(len(ids), self.version, dtype=np.int32),
            stop_reason=reason,
            stop_text=text,
        )
