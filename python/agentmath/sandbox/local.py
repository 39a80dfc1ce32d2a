"""The sandbox on this machine, as everybody else sees it.

    execute -> Link.send -> supervisor -> child        (see the package's own docstring)
            <- future    <- record     <-

Nothing is bound to an event loop for longer than a call: the loop may be another one each time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from agentmath.config.sandbox import SandboxSection
from agentmath.core.errors import SandboxError
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox import layers, wire
from agentmath.sandbox.fleet import Fleet
from agentmath.sandbox.link import Link

_GRACE_SECONDS = 15.0
"""Beyond queue and wall time, after which the sandbox process is taken for stuck."""
_CLOSE_SECONDS = 15.0
_MAX_ATTEMPTS = 2
_HIGHEST = {
    "cpu_seconds": 1e8,
    "wall_seconds": 1e8,
    "memory_bytes": 1 << 60,
    "output_bytes": 1 << 60,
    "file_bytes": 1 << 60,
}
_MAY_BE_ZERO = ("output_bytes", "file_bytes")


@dataclass(slots=True, eq=False)
class _Session:
    """Variables that live over several executions, in one process of one link."""

    name: str
    link: Link | None = None
    """None until the first execution."""
    has_state: bool = False
    """True once a block ended: what followed cannot be repeated elsewhere."""
    lost: str | None = None
    """Why the state is gone through our fault."""


@dataclass(slots=True, eq=False)
class _Job:
    """One call under way."""

    number: int
    message: wire.Message
    future: asyncio.Future[ToolResult]
    loop: asyncio.AbstractEventLoop
    link: Link
    session: _Session | None
    patience_seconds: float
    watchdog: asyncio.TimerHandle | None = None
    attempts: int = 0


async def open_sandbox(section: SandboxSection, *, without: Iterable[str] = ()) -> LocalSandbox:
    """A running sandbox. without: layers to leave out, by name (they are reported as missing).

    Raises SandboxError when nothing can be run, or when `strict` misses a layer.
    """
    sandbox = LocalSandbox(section, without=without)
    await sandbox.start()
    return sandbox


class LocalSandbox:
    """core.interfaces.Sandbox by local processes.

    Used from one thread; several event loops one after another are fine.
    """

    def __init__(self, section: SandboxSection, *, without: Iterable[str] = ()) -> None:
        off = layers.SWITCHED_OFF_WHEN_TRUSTED if section.mode == "trusted" else frozenset[str]()
        left_out = frozenset(without) | off
        unknown = sorted(left_out - set(layers.LEAVES_OPEN))
        if unknown:
            raise SandboxError(f"no such isolation layer: {unknown}; known: {list(layers.LEAVES_OPEN)}")
        self._queue_seconds = section.queue_seconds
        self._limits = Limits(
            cpu_seconds=section.cpu_seconds,
            wall_seconds=section.wall_seconds,
            memory_bytes=section.memory_bytes,
            output_bytes=section.output_bytes,
            file_bytes=section.file_bytes,
        )
        self._fleet = Fleet(section, left_out, on_answer=self._on_answer, on_death=self._on_death)
        self._jobs: dict[int, _Job] = {}
        self._sessions: dict[str, _Session] = {}
        self._closing: dict[int, tuple[Link, asyncio.Future[None]]] = {}
        self._numbers = itertools.count(1)
        self._is_closed = False

    async def start(self) -> None:
        """Start the processes; see open_sandbox."""
        try:
            await self._fleet.start()
        except BaseException:
            await self.close()
            raise

    def report(self) -> tuple[layers.Layer, ...]:
        """All layers: in force or why not, and what a missing one leaves open."""
        return self._fleet.layers

    async def execute(
        self, code: str, *, limits: Limits | None = None, session: str | None = None, stdin: bytes = b""
    ) -> ToolResult:
        """Run code; see core.interfaces.Sandbox. Cancelling the awaiting task kills the process, session included.

        A session keeps the memory and file limits of its first execution. Raises SandboxError only when the sandbox is
        closed or its process cannot be started any more.
        """
        self._check_usable()
        owner = None
        if session is not None:
            owner = self._sessions.get(session)
            if owner is None:
                return self._result(ToolStatus.SESSION_LOST, f"there is no session {session!r}")
            if owner.lost is not None:
                return self._result(ToolStatus.SANDBOX_ERROR, owner.lost)
        job = self._make_job(code, limits or self._limits, owner, stdin)
        self._submit(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            if self._jobs.pop(job.number, None) is not None:
                job.link.send({"do": "cancel", "job": job.number})
            raise
        finally:
            self._let_go(job)

    async def open_session(self) -> str:
        """A new session; its process is made by the first execution."""
        self._check_usable()
        name = f"session-{next(self._numbers)}"
        self._sessions[name] = _Session(name)
        return name

    async def close_session(self, session: str) -> None:
        """End a session; returns when its process is gone. Unknown sessions are ignored."""
        owner = self._sessions.pop(session, None)
        if owner is None or owner.link is None or owner.link.is_dead or self._is_closed:
            return
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        owner.link.attach(loop)
        future: asyncio.Future[None] = loop.create_future()
        self._closing[number] = (owner.link, future)
        owner.link.send({"do": "close", "session": session, "job": number})
        watchdog = loop.call_later(_CLOSE_SECONDS, owner.link.kill)
        try:
            await future
        finally:
            watchdog.cancel()
            self._closing.pop(number, None)

    async def close(self) -> None:
        """End all processes. What is still running is answered as cancelled."""
        self._is_closed = True
        for job in list(self._jobs.values()):
            self._settle(job, self._result(ToolStatus.CANCELLED, "the sandbox was closed"))
        await self._fleet.close()
        self._sessions.clear()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise SandboxError("the sandbox is closed")
        if self._fleet.failure is not None:
            raise SandboxError(self._fleet.failure)

    def _make_job(self, code: str, limits: Limits, session: _Session | None, stdin: bytes) -> _Job:
        link = session.link if session is not None else None
        if link is None:
            link = self._fleet.choose()
        if session is not None:
            session.link = link
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        message: wire.Message = {
            "do": "run",
            "job": number,
            "code": code,
            "stdin": stdin.decode("latin-1"),
            "session": session.name if session is not None else None,
            **_bounds(limits),
        }
        patience = self._queue_seconds + limits.wall_seconds + _GRACE_SECONDS
        return _Job(number, message, loop.create_future(), loop, link, session, patience)

    def _submit(self, job: _Job) -> None:
        job.attempts += 1
        job.link.attach(job.loop)
        job.link.num_outstanding += 1
        self._jobs[job.number] = job
        job.watchdog = job.loop.call_later(job.patience_seconds, partial(self._on_silence, job))
        job.link.send(job.message)

    def _let_go(self, job: _Job) -> None:
        job.link.num_outstanding -= 1
        if job.watchdog is not None:
            job.watchdog.cancel()

    def _on_silence(self, job: _Job) -> None:
        job.link.receive()  # the answer may have waited here while this process was busy
        if job.number in self._jobs:
            job.link.kill()

    def _on_answer(self, _: Link, message: wire.Message) -> None:
        if "closed" in message:
            if message["closed"] in self._closing:
                _finish(self._closing[message["closed"]][1])
            return
        job = self._jobs.get(message.pop("job"))
        if job is None:
            return
        if job.session is not None:
            job.session.has_state = True
        status = ToolStatus(message.pop("status"))
        self._settle(job, ToolResult(status=status, layers=self._fleet.layer_names, **message))

    def _on_death(self, link: Link, replacement: Link | None, last_words: str) -> None:
        """Repeat elsewhere what can be repeated, once."""
        for other, future in list(self._closing.values()):
            if other is link:
                _finish(future)
        for session in self._sessions.values():
            if session.link is link:
                session.link = replacement
                if session.has_state:
                    session.lost = "the sandbox process died and took the session's state with it"
        for job in [job for job in self._jobs.values() if job.link is link]:
            if job.loop.is_closed():
                del self._jobs[job.number]
            elif replacement is None:
                del self._jobs[job.number]
                if not job.future.done():
                    job.future.set_exception(SandboxError(self._fleet.failure or "the sandbox is closed"))
            else:
                self._repeat(job, replacement, last_words)

    def _repeat(self, job: _Job, link: Link, last_words: str) -> None:
        if job.session is not None and job.session.lost is not None:
            self._settle(job, self._result(ToolStatus.SANDBOX_ERROR, job.session.lost))
        elif job.attempts >= _MAX_ATTEMPTS:
            why = f"the sandbox process died twice under this call: {last_words}"
            self._settle(job, self._result(ToolStatus.SANDBOX_ERROR, why))
        else:
            self._let_go(job)
            job.link = link
            self._submit(job)

    def _settle(self, job: _Job, result: ToolResult) -> None:
        del self._jobs[job.number]
        if not job.loop.is_closed() and not job.future.done():
            job.future.set_result(result)

    def _result(self, status: ToolStatus, error: str) -> ToolResult:
        return ToolResult(status=status, error=error, layers=self._fleet.layer_names)


def _bounds(limits: Limits) -> dict[str, float]:
    """Limits as numbers that the kernel can take. Raises SandboxError for those that make no sense."""
    bounds: dict[str, float] = {}
    for name, highest in _HIGHEST.items():
        value = getattr(limits, name)
        if not (value > 0 or (value == 0 and name in _MAY_BE_ZERO)):
            raise SandboxError(f"an execution cannot be limited to {name} = {value}: give a positive number")
        bounds[name] = min(value, highest)
    return bounds


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
