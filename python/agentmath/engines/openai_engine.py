"""A RolloutEngine that asks an OpenAI-compatible server: vLLM, llama.cpp, an API.

Answers are streamed, and the connection is closed as soon as a stop text is complete: servers do not say which stop
text ended an answer, and cut it off, so it is read here. What the network does is retried with back-off and counted;
what cannot be mended is an EngineError, and such a sample is never graded.

The only file that imports httpx2, and only when an engine is made.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentmath.config.endpoint import EndpointSection, endpoint_key
from agentmath.core.errors import EngineError
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.chat_marks import MarkedTokenizer, messages_of
from agentmath.engines.completion_stream import LostStream, Piece, read_events, read_whole
from agentmath.engines.piece_tokenizer import PieceTokenizer

RETRIED = frozenset({408, 409, 425, 429})
"""Refusals that are no fault of the request; so are all of 500 and above."""
_LONGEST_WAIT_SECONDS = 60.0
_LARGEST_SEED = 2**31


class Refused(Exception):
    """A try failed for a reason that may pass."""

    def __init__(self, kind: str, words: str, retry_after: float | None = None) -> None:
        super().__init__(words)
        self.kind, self.retry_after = kind, retry_after


class OpenAIEngine:
    """core.interfaces.RolloutEngine over HTTP. Close it when it is done."""

    def __init__(self, section: EndpointSection, tokenizer: Tokenizer, *, output: tuple[str, str], seed: int) -> None:
        """output: the dialect's opening and closing mark of a tool output; seed is that of the waits between tries."""
        import httpx2

        self._http = httpx2
        self._section, self._tokenizer, self._output = section, tokenizer, output
        self._random = random.Random(seed)
        self._aborted: set[int] = set()
        self._running: dict[int, asyncio.Task[Completion]] = {}
        self.counts: Counter[str] = Counter()
        """requests, tries, retried/REASON, lost, pieces_streamed."""
        limit = section.max_concurrent
        key = endpoint_key(section)
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(section.idle_seconds, pool=section.request_seconds),
            limits=httpx2.Limits(max_connections=limit, max_keepalive_connections=limit),
            trust_env=False,
        )

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        """Continue ids. Raises EngineError when no try succeeds before endpoint.request_seconds are over."""
        # Half a surrogate pair cannot be sent.
        context = self._tokenizer.decode(ids).encode("utf-8", "replace").decode()
        task = asyncio.ensure_future(self._answered(context, sampling))
        self._running[session] = task
        try:
            return await task
        except asyncio.CancelledError:
            if session not in self._aborted:
                task.cancel()
                raise
            return Completion.unsampled([], StopReason.ABORTED)
        finally:
            self._running.pop(session, None)
            self._aborted.discard(session)

    def close_session(self, session: int) -> None:
        """Nothing is kept between requests."""

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        """Raises EngineError: a served model has its own weights."""
        raise EngineError("a served model cannot be given weights: train with an engine of our own")

    async def abort(self, session: int) -> None:
        """End the session's running request; nothing of it is kept."""
        if session in self._running:
            self._aborted.add(session)
            self._running[session].cancel()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _answered(self, context: str, sampling: Sampling) -> Completion:
        self.counts["requests"] += 1
        path, body = self._request(context, sampling)
        said = "nothing"
        try:
            async with asyncio.timeout(self._section.request_seconds):
                for attempt in range(self._section.max_retries + 1):
                    self.counts["tries"] += 1
                    try:
                        return await self._ask(path, body, context, sampling)
                    except Refused as fault:
                        said = str(fault)
                        self.counts[f"retried/{fault.kind}"] += 1
                        if attempt < self._section.max_retries:
                            await asyncio.sleep(self._wait_seconds(attempt, fault.retry_after))
        except TimeoutError as error:
            self.counts["lost"] += 1
            raise EngineError(
                f"{self._section.url} gave no answer within endpoint.request_seconds = "
                f"{self._section.request_seconds:g}; the last try said: {said}"
            ) from error
        self.counts["lost"] += 1
        raise EngineError(f"{self._section.url}: {self._section.max_retries + 1} tries failed; the last said: {said}")

    def _wait_seconds(self, attempt: int, retry_after: float | None) -> float:
        longest = min(self._section.backoff_seconds * 2**attempt, _LONGEST_WAIT_SECONDS)
        return max(self._random.uniform(0.5, 1.0) * longest, retry_after or 0.0)

    def _request(self, context: str, sampling: Sampling) -> tuple[str, dict[str, Any]]:
        section = self._section
        body: dict[str, Any] = {
            "model": section.model,
            section.limit_key: sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed % _LARGEST_SEED,
            "stream": True,
        }
        if sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if section.api == "completions":
            return "/completions", {**body, "prompt": context}
        opening, closing = self._output
        messages = messages_of(context, output_open=opening, output_close=closing, prefill=section.prefill)
        if messages[-1]["role"] == "assistant":
            if not section.prefill:
                raise EngineError(
                    "the model paused in mid-sentence, and a chat server begins a new message: set endpoint.prefill if "
                    "it can go on with a message (vLLM, llama.cpp), or endpoint.api = 'completions'"
                )
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return "/chat/completions", {**body, "messages": messages}

    async def _ask(self, path: str, body: dict[str, Any], context: str, sampling: Sampling) -> Completion:
        """One try. Raises Refused for what may pass, EngineError for what will not."""
        url = self._section.url.rstrip("/") + path
        reader = _Reader(context, sampling.stop)
        try:
            async with self._client.stream("POST", url, json=body) as response:
                if response.status_code != 200:
                    raise _refusal(response.status_code, await response.aread(), response.headers, self._section)
                if "event-stream" in response.headers.get("content-type", ""):
                    async for piece in read_events(response.aiter_lines()):
                        self.counts["pieces_streamed"] += 1
                        if reader.add(piece):
                            break
                else:
                    reader.add(read_whole(await response.aread()))
        except self._http.TimeoutException as error:
            raise Refused("silence", f"silent for endpoint.idle_seconds = {self._section.idle_seconds:g}") from error
        except self._http.RequestError as error:
            raise Refused("connection", f"{type(error).__name__}: {error}".rstrip(": ")) from error
        except LostStream as error:
            raise Refused("broken_stream", str(error)) from error
        return self._completion(reader, sampling)

    def _completion(self, reader: _Reader, sampling: Sampling) -> Completion:
        tokenizer = self._tokenizer.tokenizer if isinstance(self._tokenizer, MarkedTokenizer) else self._tokenizer
        if isinstance(tokenizer, PieceTokenizer):
            ids = tokenizer.encode_pieces(reader.parts)
        else:
            ids = tokenizer.encode("".join(reader.parts), allow_special=False)
        reason = reader.reason
        if reason is StopReason.EOS:
            ids = [*ids, self._tokenizer.eos_ids[0]]
        n = len(ids)
        return Completion(
            ids=np.asarray(ids, dtype=np.int32),
            logprobs=np.full(n, np.nan, dtype=np.float32),
            versions=np.zeros(n, dtype=np.int32),
            stop_reason=reason,
            stop_text=reader.stop_text,
        )


class _Reader:
    """Collects pieces up to a stop text, which may have begun in the context's last letters."""

    def __init__(self, context: str, stop: Sequence[str]) -> None:
        self._stop, self._window = stop, max(map(len, stop), default=1) - 1
        self._tail = context[len(context) - min(self._window, len(context)) :]
        self.parts: list[str] = []
        self.reason = StopReason.EOS
        self.stop_text: str | None = None

    def add(self, piece: Piece) -> bool:
        """Take one piece in; True when nothing after it counts."""
        text = self._tail + piece.text
        ends = [(at + len(s), s) for s in self._stop if (at := self._find(text, s)) >= 0]
        if ends:
            end, self.stop_text = min(ends)
            self.parts.append(text[len(self._tail) : end])
            self.reason = StopReason.STOP
            return True
        self.parts.append(piece.text)
        self._tail = text[len(text) - min(self._window, len(text)) :]
        if piece.finish == "length":
            self.reason = StopReason.LENGTH
        return piece.finish is not None

    def _find(self, text: str, stop: str) -> int:
        """Where a stop text stands that ends in the new part."""
        return text.find(stop, max(len(self._tail) - len(stop) + 1, 0))


def _refusal(status: int, body: bytes, headers: Mapping[str, str], section: EndpointSection) -> Exception:
    words = " ".join(body.decode("utf-8", "replace").split())[:300]
    if status in RETRIED or status >= 500:
        return Refused(str(status), f"{status} {words}", _seconds(headers.get("retry-after")))
    hint = f"; is {section.key_variable} set?" if status in (401, 403) else ""
    return EngineError(f"{section.url} refused the request with status {status}{hint}: {words}")


def _seconds(value: str | None) -> float | None:
    """Retry-After in seconds; its form as a date is left to the back-off."""
    try:
        return min(max(float(value or ""), 0.0), _LONGEST_WAIT_SECONDS)
    except ValueError:
        return None
