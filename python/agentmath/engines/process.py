"""One engine process as the trainer sees it: start, requests with the tokens received so far, operations, end.

start -> listen, spawn, hello, load, ready          each wait has a deadline and says what was awaited
generate -> Stream, which grows as frames arrive; when the process is lost, what was received stays in it
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines import wire
from agentmath.engines.backend import Floats, Ids, LoadSpec
from agentmath.engines.server import spec_as_json
from agentmath.engines.spawn import Child, Home, listen, spawn
from agentmath.engines.wire import EngineLost, Frame

T = TypeVar("T")
DIAL_SECONDS = 60.0
"""From the spawn to the first frame: an interpreter starts and imports our package."""
_GRACE_SECONDS = 1.0
"""The trainer's loop stands still while it trains; what arrived meanwhile is read before a deadline counts."""
_TICK_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class Stream:
    """Tokens of one request as they arrive."""

    ids: list[Ids] = field(default_factory=list)
    logprobs: list[Floats] = field(default_factory=list)
    versions: list[Ids] = field(default_factory=list)
    ended: asyncio.Future[tuple[StopReason, str | None]]
    """Fails with EngineLost when the process is gone, with EngineError when the request was refused."""

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.ids))

    def completion(self, reason: StopReason, stop_text: str | None = None) -> Completion:
        """All that has arrived."""
        empty = np.empty(0, dtype=np.int32)
        return Completion(
            ids=np.concatenate([empty, *self.ids]),
            logprobs=np.concatenate([empty.astype(np.float32), *self.logprobs]),
            versions=np.concatenate([empty, *self.versions]),
            stop_reason=reason,
            stop_text=stop_text,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Of [engine], in seconds."""

    start: float
    answer: float
    stall: float


class EngineProcess:
    """Belongs to one event loop. After a loss, start() may be called again."""

    def __init__(
        self, *, number: int, kind: str, spec: LoadSpec, home: Home, python: str, deadlines: Deadlines
    ) -> None:
        self.label = f"engine {number} ({kind})"
        self.facts: Mapping[str, Any] = {}
        """What the process said of itself when it was ready."""
        self.home = home
        self._kind, self._spec, self._python, self._deadlines = kind, spec, python, deadlines
        self._child: Child | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: dict[int, Stream] = {}
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._next_key = 0
        self._is_paused = False
        self._is_log_named = False
        self._idle_seconds = 0.0
        self.lost: asyncio.Future[str] | None = None
        """Says why, once the process is gone; None until it is ready."""

    @property
    def pid(self) -> int | None:
        """Also the number of its process group; None while it does not run."""
        return self._child.pid if self._child and not self._child.has_ended() else None

    @property
    def is_up(self) -> bool:
        return self.lost is not None and not self.lost.done()

    async def start(self) -> None:
        """Spawn the process and wait until it serves.

        Raises ConfigError when engine.python cannot be run, EngineError when the process ends, refuses, or does not get
        ready in time; nothing of it is left then.
        """
        self._child, self.lost = None, None
        listener = listen(self.home)
        try:
            self._child = spawn(self._kind, self.home, python=self._python, num_threads=self._spec.num_threads)
            reader = await self._greet(listener)
            await self._await_ready(reader)
        except BaseException:
            self.kill()
            raise
        finally:
            listener.close()
        loop = asyncio.get_running_loop()
        self.lost, self._is_paused, self._idle_seconds = loop.create_future(), False, 0.0
        self._tasks = [loop.create_task(self._receive(reader)), loop.create_task(self._watch())]

    async def _greet(self, listener: Any) -> asyncio.StreamReader:
        """The connection of our child, after its hello."""
        loop = asyncio.get_running_loop()
        what = f"did not report within {DIAL_SECONDS:g} s of its start"
        connection, _ = await self._starting(loop.sock_accept(listener), DIAL_SECONDS, what)
        reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        hello = await self._starting(wire.read(reader), DIAL_SECONDS, what)
        if hello.op != "hello" or hello.fields.get("protocol") != wire.PROTOCOL:
            raise EngineError(
                f"{self.label} speaks protocol {hello.fields.get('protocol')}, this trainer {wire.PROTOCOL}: "
                "engine.python runs another version of agentmath"
            )
        return reader

    async def _await_ready(self, reader: asyncio.StreamReader) -> None:
        seconds = self._deadlines.start
        self._send(Frame(op="load", fields={"protocol": wire.PROTOCOL, "spec": spec_as_json(self._spec)}))
        what = f"did not load {self._spec.model} within engine.start_seconds = {seconds:g}"
        answer = await self._starting(wire.read(reader), seconds, what)
        if answer.op != "ready":
            raise EngineError(f"{self.label} cannot start: {answer.fields.get('error', answer.op)}")
        self.facts = answer.fields["facts"]

    async def _starting(self, step: Awaitable[T], seconds: float, what: str) -> T:
        """A step of the start, unless the process ends first."""
        assert self._child is not None
        task = asyncio.ensure_future(step)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while not task.done():
                if self._child.has_ended():
                    await asyncio.wait([task], timeout=_GRACE_SECONDS)
                    break
                if loop.time() > deadline:
                    await asyncio.wait([task], timeout=_GRACE_SECONDS)
                    if not task.done():
                        raise EngineError(f"{self.label} {what}{self._hint()}")
                await asyncio.wait([task], timeout=0.05)
            if task.done() and not isinstance(task.exception(), EngineLost):
                return task.result()
        finally:
            task.cancel()
        for _ in range(100):
            if self._child.has_ended():
                break
            await asyncio.sleep(0.05)
        raise EngineError(f"{self.label} {self._child.describe_end()} while it started{self._hint()}")

    def _hint(self) -> str:
        self._is_log_named = True
        words = self.home.last_words()
        return (
            f"; it said last: {words} (all of it in {self.home.log})"
            if words
            else f" (it said nothing; see {self.home.log})"
        )

    # ---- requests ----

    def open(self, ids: Sequence[int] | Ids, sampling: Sampling, *, session: int) -> tuple[int, Stream]:
        """Send a request; returns its key and the stream that its tokens arrive in. Raises EngineLost."""
        stream = Stream(ended=asyncio.get_running_loop().create_future())
        self._next_key += 1
        key = self._next_key
        fields = {"key": key, "session": session, "sampling": asdict(sampling)}
        self._send(Frame(op="generate", fields=fields, arrays={"ids": np.asarray(ids, dtype=np.int32)}))
        self._streams[key] = stream
        return key, stream

    def abort(self, key: int) -> None:
        """The request's stream ends as ABORTED."""
        with suppress(EngineLost):
            self._send(Frame(op="abort", fields={"key": key}))

    def forget(self, key: int) -> None:
        """Nobody waits for the request any more."""
        if self._streams.pop(key, None) is not None:
            self.abort(key)

    def close_session(self, session: int) -> None:
        with suppress(EngineLost):
            self._send(Frame(op="close_session", fields={"session": session}))

    # ---- operations ----

    async def score(self, rows: Sequence[Ids]) -> list[Floats]:
        """Log-prob of every token but the first of each row."""
        lengths = np.array([len(r) for r in rows], dtype=np.int32)
        ids = np.concatenate(rows).astype(np.int32)
        answer = await self._ask(Frame(op="score", arrays={"ids": ids, "lengths": lengths}))
        return np.split(answer.arrays["logprobs"], np.cumsum(lengths - 1)[:-1])

    async def update_weights(self, version: int, path: str, *, keeps_kv: bool) -> None:
        fields = {"version": version, "path": path, "keeps_kv": keeps_kv}
        await self._ask(Frame(op="update_weights", fields=fields))

    async def pause(self, *, keeps_kv: bool) -> None:
        self._is_paused = True
        await self._ask(Frame(op="pause", fields={"keeps_kv": keeps_kv}))

    async def resume(self) -> None:
        await self._ask(Frame(op="resume"))
        self._is_paused = False

    async def reset_prefix_cache(self) -> None:
        await self._ask(Frame(op="reset_prefix_cache"))

    async def check_health(self) -> None:
        await self._ask(Frame(op="health"))

    async def stats(self) -> Mapping[str, float]:
        return (await self._ask(Frame(op="stats"))).fields["stats"]

    async def _ask(self, frame: Frame) -> Frame:
        """One question, one answer. Raises EngineError when it is refused, EngineLost when nothing comes."""
        self._next_key += 1
        number, seconds = self._next_key, self._deadlines.answer
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(Frame(op=frame.op, fields={**frame.fields, "number": number}, arrays=frame.arrays))
            await asyncio.wait([answer], timeout=seconds)
            if not answer.done():
                await asyncio.wait([answer], timeout=_GRACE_SECONDS)
            if not answer.done():
                self._lose(f"did not answer {frame.op!r} within engine.answer_seconds = {seconds:g}")
            return answer.result()
        finally:
            self._answers.pop(number, None)

    # ---- the connection ----

    def _send(self, frame: Frame) -> None:
        if self._writer is None or (self.lost is not None and self.lost.done()):
            raise EngineLost(f"{self.label} is not running")
        self._writer.write(wire.encode(frame))

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._take(await wire.read(reader))
        except EngineLost:
            for _ in range(20):  # the socket closes a moment before the process can be collected
                if self._child is None or self._child.has_ended():
                    break
                await asyncio.sleep(0.05)
            self._lose(self._child.describe_end() if self._child else "is gone")
        except EngineError as error:
            self._lose(f"sent something that cannot be read: {error}")

    def _take(self, frame: Frame) -> None:
        self._idle_seconds = 0.0
        fields = frame.fields
        if frame.op == "tokens":
            self._deliver(frame)
        elif frame.op == "refused" and "key" in fields:
            stream = self._streams.pop(fields["key"], None)
            if stream is not None and not stream.ended.done():
                stream.ended.set_exception(EngineError(f"{self.label}: {fields['error']}"))
        elif (answer := self._answers.get(fields.get("number", -1))) is not None and not answer.done():
            if frame.op == "answer":
                answer.set_result(frame)
            else:
                answer.set_exception(EngineError(f"{self.label}: {fields['error']}"))

    def _deliver(self, frame: Frame) -> None:
        begin = 0
        for key, count, reason, stop_text in frame.fields["requests"]:
            part = slice(begin, begin + count)
            begin += count
            stream = self._streams.get(key)
            if stream is None:
                continue
            stream.ids.append(frame.arrays["ids"][part])
            stream.logprobs.append(frame.arrays["logprobs"][part])
            stream.versions.append(frame.arrays["versions"][part])
            if reason is not None:
                del self._streams[key]
                if not stream.ended.done():
                    stream.ended.set_result((StopReason(reason), stop_text))

    async def _watch(self) -> None:
        """Notice a process that has requests and says nothing. Only time in which this loop turns is counted."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._idle_seconds = self._idle_seconds + _TICK_SECONDS if self._streams and not self._is_paused else 0.0
            if self._idle_seconds > self._deadlines.stall:
                self._lose(
                    f"sent no token of {len(self._streams)} requests within engine.stall_seconds = "
                    f"{self._deadlines.stall:g}"
                )

    def _lose(self, why: str) -> None:
        """The process is given up: everybody who waits is told, and nothing of it is left."""
        if self.lost is None or self.lost.done():
            return
        self.give_up(f"{self.label} {why}{self._hint()}")

    def give_up(self, reason: str) -> None:
        """End the process; whoever waits for something from it is told the reason."""
        if self.is_up:
            self._fail_all(reason)
        self.kill()

    def _fail_all(self, reason: str) -> None:
        assert self.lost is not None
        self.lost.set_result(reason)
        streams, self._streams = self._streams, {}
        for waiting in (*(s.ended for s in streams.values()), *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(EngineLost(reason))

    def kill(self) -> None:
        """End the process and all that it started."""
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._tasks = []
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """End it for good; those who wait are told. Its log goes too, unless an error text has named it."""
        if self.lost is not None and not self.lost.done():
            self._fail_all(f"{self.label} was closed")
        self.kill()
        self.home.remove(keeps_log=self._is_log_named)
