"""The sandbox on this machine, as everybody else sees it.

    execute -> Link.send -> supervisor -> child        (see the package's own docstring)
            <- future    <- record     <-

Nothing is bound to an event loop for longer than a call: the loop may be another one each time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from agentmath.config.sandbox import SandboxSection
from agentmath.core.errors import SandboxError
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox import layers, library, wire
from agentmath.sandbox.link import Link, describe_python

_START_SECONDS = 120.0
_GRACE_SECONDS = 15.0
"""Beyond queue and wall time, after which the sandbox process is taken for stuck."""
_WORKERS_PER_PROCESS = 8
_MAX_ATTEMPTS = 2
_MAX_STILLBORN = 3
"""Sandbox processes in a row that ended before they were ready; then there is no use in starting more."""


@dataclass(slots=True, eq=False)
class _Job:
    """One call under way."""

    number: int
    message: wire.Message
    future: asyncio.Future[ToolResult]
    loop: asyncio.AbstractEventLoop
    link: Link
    patience_seconds: float
    watchdog: asyncio.TimerHandle | None = None
    session: _Session | None = None
    attempts: int = 0


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
    jobs: set[int] = field(default_factory=set)


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
        self._section = section
        off = layers.SWITCHED_OFF_WHEN_TRUSTED if section.mode == "trusted" else frozenset()
        self._without = frozenset(without) | off
        unknown = self._without - set(layers.LEAVES_OPEN)
        if unknown:
            raise SandboxError(f"no such isolation layer: {sorted(unknown)}; known: {list(layers.LEAVES_OPEN)}")
        self._limits = Limits(
            cpu_seconds=section.cpu_seconds,
            wall_seconds=section.wall_seconds,
            memory_bytes=section.memory_bytes,
            output_bytes=section.output_bytes,
            file_bytes=section.file_bytes,
        )
        self._links: list[Link] = []
        self._workers: dict[Link, int] = {}
        self._jobs: dict[int, _Job] = {}
        self._closing: dict[int, tuple[Link, asyncio.Future[None]]] = {}
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(1)
        self._layers: tuple[layers.Layer, ...] = ()
        self._layer_names: tuple[str, ...] = ()
        self._num_stillborn = 0
        self._failure: str | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start the processes and wait until they have said what they are. Raises SandboxError."""
        num_workers = self._section.num_workers or len(os.sched_getaffinity(0))
        num_links = -(-num_workers // _WORKERS_PER_PROCESS)
        for i in range(num_links):
            self._add_link((num_workers + i) // num_links)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        try:
            for link in list(self._links):
                link.attach(loop)
                while link.hello is None and self._failure is None:
                    if loop.time() > deadline:
                        raise SandboxError(f"the sandbox process did not start within {_START_SECONDS:g} s")
                    await asyncio.sleep(0.001)
            if self._failure is not None:
                raise SandboxError(self._failure)
            layers.check(self._section.mode, self._layers)
        except BaseException:
            await self.close()
            raise

    def report(self) -> tuple[layers.Layer, ...]:
        """All layers: in force or why not, and what a missing one leaves open."""
        return self._layers

    async def execute(
        self, code: str, *, limits: Limits | None = None, session: str | None = None, stdin: bytes = b""
    ) -> ToolResult:
        """Run code; see core.interfaces.Sandbox. Cancelling the awaiting task kills the process, session included.

        Raises SandboxError only when the sandbox is closed or its process cannot be started any more.
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
            self._forget(job)

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
        try:
            await future
        finally:
            self._closing.pop(number, None)

    async def close(self) -> None:
        """End all processes. What is still running is answered as cancelled."""
        self._is_closed = True
        for job in list(self._jobs.values()):
            self._settle(job, self._result(ToolStatus.CANCELLED, "the sandbox was closed"))
        for link in self._links:
            link.attach(asyncio.get_running_loop())
            link.hang_up()
        for link in self._links:
            await link.wait_until_dead()
        self._links.clear()
        self._sessions.clear()

    def _check_usable(self) -> None:
        if self._is_closed:
            raise SandboxError("the sandbox is closed")
        if self._failure is not None:
            raise SandboxError(self._failure)

    def _add_link(self, num_workers: int) -> Link:
        setup = {
            "num_workers": num_workers,
            "queue_seconds": self._section.queue_seconds,
            "idle_cpu_seconds": self._section.cpu_seconds,
            "bounds": _bounds(self._limits),
            "trainer_pid": os.getpid(),
            "preload": list(self._section.preload),
            "without": sorted(self._without),
            "readable": library.readable_paths(),
            "needed_paths": library.needed_paths(),
            "library_paths": library.package_folders(),
        }
        try:
            link = Link(setup, on_message=self._on_message)
        except OSError as error:
            raise SandboxError(f"the sandbox process cannot be started: {error}") from error
        self._links.append(link)
        self._workers[link] = num_workers
        return link

    def _make_job(self, code: str, limits: Limits, session: _Session | None, stdin: bytes) -> _Job:
        link = session.link if session is not None else None
        if link is None:
            link = min(self._links, key=lambda one: one.num_outstanding / self._workers[one])
        if session is not None:
            session.link = link
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        message: wire.Message = {
            "do": "run",
            "job": number,
            "code": code,
            "stdin": stdin.decode("latin-1"),
            "bounds": _bounds(limits),
            "session": session.name if session is not None else None,
        }
        patience = self._section.queue_seconds + limits.wall_seconds + _GRACE_SECONDS
        return _Job(number, message, loop.create_future(), loop, link, patience, session=session)

    def _submit(self, job: _Job) -> None:
        job.attempts += 1
        job.link.attach(job.loop)
        job.link.num_outstanding += 1
        self._jobs[job.number] = job
        if job.session is not None:
            job.session.jobs.add(job.number)
        job.watchdog = job.loop.call_later(job.patience_seconds, partial(self._on_silence, job))
        job.link.send(job.message)

    def _on_silence(self, job: _Job) -> None:
        job.link.receive()  # the answer may have waited here while this process was busy
        if job.number in self._jobs:
            job.link.kill()

    def _on_message(self, link: Link, message: wire.Message) -> None:
        if "gone" in message:
            self._on_death(link)
        elif "job" in message:
            job = self._jobs.get(message.pop("job"))
            if job is not None:
                if job.session is not None:
                    job.session.has_state = True
                status = ToolStatus(message.pop("status"))
                self._settle(job, ToolResult(status=status, layers=self._layer_names, **message))
        elif "closed" in message:
            _, future = self._closing.get(message["closed"], (link, None))
            if future is not None and not future.done():
                future.set_result(None)
        else:
            self._on_hello(link)

    def _on_hello(self, link: Link) -> None:
        hello = link.hello
        assert hello is not None
        self._num_stillborn = 0
        if "failed" in hello:
            self._failure = f"the sandbox process cannot start: {hello['failed']}"
            return
        if hello["python"] != describe_python():
            self._failure = f"the sandbox process runs another Python: {hello['python']} instead of {describe_python()}"
            return
        self._layers = layers.report(tuple(row) for row in hello["layers"])
        self._layer_names = tuple(layer.name for layer in self._layers if layer.in_force)

    def _on_death(self, link: Link) -> None:
        """Replace a process that died and repeat what can be repeated, once."""
        for other, future in list(self._closing.values()):
            if other is link and not future.done():
                future.set_result(None)
        if self._is_closed:
            return
        self._links.remove(link)
        self._num_stillborn += link.hello is None
        if self._num_stillborn >= _MAX_STILLBORN and self._failure is None:
            self._failure = f"the sandbox process ended before it was ready: {link.error_text() or 'it said nothing'}"
        replacement = self._replace(link)
        for session in self._sessions.values():
            if session.link is link:
                session.link = replacement
                if session.has_state:
                    session.lost = "the sandbox process died and took the session's state with it"
        for job in [job for job in self._jobs.values() if job.link is link]:
            self._retry(job, replacement, link.error_text())

    def _replace(self, link: Link) -> Link | None:
        num_workers = self._workers.pop(link)
        if self._failure is None:
            try:
                return self._add_link(num_workers)
            except SandboxError as error:
                self._failure = str(error)
        return None

    def _retry(self, job: _Job, replacement: Link | None, last_words: str) -> None:
        if replacement is None:
            del self._jobs[job.number]
            if not job.future.done():
                job.future.set_exception(SandboxError(self._failure or "the sandbox process died"))
            return
        if job.session is not None and job.session.lost is not None:
            self._settle(job, self._result(ToolStatus.SANDBOX_ERROR, job.session.lost))
        elif job.attempts >= _MAX_ATTEMPTS:
            self._settle(
                job,
                self._result(ToolStatus.SANDBOX_ERROR, f"the sandbox process died twice under this call: {last_words}"),
            )
        elif job.loop.is_closed():
            del self._jobs[job.number]
        else:
            self._forget(job)
            job.link = replacement
            self._submit(job)

    def _settle(self, job: _Job, result: ToolResult) -> None:
        del self._jobs[job.number]
        if not job.loop.is_closed() and not job.future.done():
            job.future.set_result(result)

    def _forget(self, job: _Job) -> None:
        job.link.num_outstanding -= 1
        if job.watchdog is not None:
            job.watchdog.cancel()
        if job.session is not None:
            job.session.jobs.discard(job.number)

    def _result(self, status: ToolStatus, error: str) -> ToolResult:
        return ToolResult(status=status, error=error, layers=self._layer_names)


def _bounds(limits: Limits) -> tuple[float, float, int, int, int]:
    """In the order of verdict.Bounds."""
    return limits.cpu_seconds, limits.wall_seconds, limits.memory_bytes, limits.output_bytes, limits.file_bytes
