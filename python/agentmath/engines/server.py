"""The engine process's side: dials the trainer, loads a model, and serves frames until the trainer is gone.

The trainer holds the other end of standard input. When that closes, however the trainer died, the whole process group
is killed: nothing that a library started survives.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentmath.core.errors import AgentmathError, EngineError
from agentmath.core.types import Sampling
from agentmath.engines import wire
from agentmath.engines.backend import Backend, Chunk, LoadSpec, Wanted
from agentmath.engines.wire import Frame

DIAL_SECONDS = 30.0
FLUSH_SECONDS = 0.01
"""Chunks of so long travel in one frame: the trainer wakes once for all of them."""


def follow_the_trainer() -> None:
    """Kill this process group as soon as standard input ends."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="follow-the-trainer").start()


async def serve(path: str, backend: Backend) -> None:
    """Serve the trainer that listens at `path` until it hangs up."""
    async with asyncio.timeout(DIAL_SECONDS):
        reader, writer = await asyncio.open_unix_connection(path)
    outbox = Outbox(writer)
    try:
        outbox.send(Frame(op="hello", fields={"protocol": wire.PROTOCOL, "pid": os.getpid()}))
        first = await wire.read(reader)
        if first.op != "load" or first.fields.get("protocol") != wire.PROTOCOL:
            raise EngineError(
                f"this engine speaks protocol {wire.PROTOCOL}, the trainer {first.fields.get('protocol')}"
            )
        try:
            facts = await backend.load(_load_spec(first.fields["spec"]))
        except Exception as error:  # the library's many ways to say that a model cannot be served
            outbox.send(Frame(op="failed", fields={"error": _sentence(error)}))
            await writer.drain()
            return
        outbox.send(Frame(op="ready", fields={"facts": dict(facts)}))
        async with asyncio.TaskGroup() as group:
            server = Server(backend, outbox, group)
            group.create_task(outbox.run())
            while True:
                server.receive(await wire.read(reader))
    except* wire.EngineLost:
        pass  # the trainer hung up


def _load_spec(fields: dict[str, Any]) -> LoadSpec:
    return LoadSpec(**{**fields, "eos_ids": tuple(fields["eos_ids"])})


@dataclass(slots=True)
class Outbox:
    """Frames to the trainer; sampled tokens of all requests are gathered for a moment and travel together."""

    writer: asyncio.StreamWriter
    _chunks: dict[int, list[Chunk]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, frame: Frame) -> None:
        self.writer.write(wire.encode(frame))

    def add(self, key: int, chunk: Chunk) -> None:
        self._chunks.setdefault(key, []).append(chunk)
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            self._news.clear()
            chunks, self._chunks = self._chunks, {}
            self.send(_tokens_frame(chunks))
            await self.writer.drain()


def _tokens_frame(chunks: dict[int, list[Chunk]]) -> Frame:
    """One frame of all requests: per request its key, token count, and ending if it has one."""
    table: list[list[Any]] = []
    every: list[Chunk] = []
    for key, several in chunks.items():
        count = sum(len(c.ids) for c in several)
        ending = several[-1].ending
        table.append([key, count, ending and ending.reason.value, ending and ending.stop_text])
        every += several
    return Frame(
        op="tokens",
        fields={"requests": table},
        arrays={
            "ids": np.concatenate([np.asarray(c.ids, dtype=np.int32) for c in every]),
            "logprobs": np.concatenate([np.asarray(c.logprobs, dtype=np.float32) for c in every]),
            "versions": np.concatenate([np.broadcast_to(np.int32(c.version), len(c.ids)) for c in every]),
        },
    )


@dataclass(slots=True)
class Server:
    """Turns frames into calls of the backend, and answers."""

    backend: Backend
    outbox: Outbox
    group: asyncio.TaskGroup

    def receive(self, frame: Frame) -> None:
        if frame.op == "generate":
            self.group.create_task(self._generate(frame))
        elif frame.op == "abort":
            self.group.create_task(self.backend.abort(frame.fields["key"]))
        elif frame.op == "close_session":
            self.group.create_task(self.backend.close_session(frame.fields["session"]))
        else:
            self.group.create_task(self._answer(frame))

    async def _generate(self, frame: Frame) -> None:
        fields = frame.fields
        sampling = Sampling(**{**fields["sampling"], "stop": tuple(fields["sampling"]["stop"])})
        wanted = Wanted(key=fields["key"], session=fields["session"], ids=frame.arrays["ids"], sampling=sampling)
        try:
            await self.backend.generate(wanted, lambda chunk: self.outbox.add(wanted.key, chunk))
        except Exception as error:  # what went wrong with a request is told to whoever waits for it
            self._die_if_dead(error)
            self.outbox.send(Frame(op="refused", fields={"key": wanted.key, "error": _sentence(error)}))

    async def _answer(self, frame: Frame) -> None:
        number = frame.fields.get("number")
        try:
            answer = await self._operation(frame)
        except Exception as error:  # likewise
            self._die_if_dead(error)
            self.outbox.send(Frame(op="refused", fields={"number": number, "error": _sentence(error)}))
        else:
            self.outbox.send(Frame(op="answer", fields={**answer.fields, "number": number}, arrays=answer.arrays))

    def _die_if_dead(self, error: Exception) -> None:
        """To end is the clearest thing to say: the trainer then takes requests elsewhere and starts a new process."""
        if self.backend.is_dead():
            print(f"error: the engine behind this server is dead: {_sentence(error)}", file=sys.stderr, flush=True)
            os._exit(1)

    async def _operation(self, frame: Frame) -> Frame:
        backend, fields = self.backend, frame.fields
        match frame.op:
            case "score":
                rows = np.split(frame.arrays["ids"], np.cumsum(frame.arrays["lengths"])[:-1])
                return Frame(op="", arrays={"logprobs": np.concatenate(await backend.score(rows))})
            case "stats":
                return Frame(op="", fields={"stats": dict(backend.stats())})
            case "update_weights":
                await backend.update_weights(fields["version"], fields["path"], keeps_kv=fields["keeps_kv"])
            case "pause":
                await backend.pause(keeps_kv=fields["keeps_kv"])
            case "resume":
                await backend.resume()
            case "reset_prefix_cache":
                await backend.reset_prefix_cache()
            case "health":
                await backend.check_health()
            case other:
                raise EngineError(f"the engine protocol has no operation {other!r}")
        return Frame(op="")


def _sentence(error: Exception) -> str:
    if isinstance(error, AgentmathError):
        return str(error)
    traceback.print_exception(error, file=sys.stderr)
    return f"{type(error).__name__}: {error}"


def spec_as_json(spec: LoadSpec) -> dict[str, Any]:
    """What _load_spec reads."""
    return json.loads(json.dumps({name: getattr(spec, name) for name in LoadSpec.__slots__}))
