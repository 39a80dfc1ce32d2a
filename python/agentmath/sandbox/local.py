"""The sandbox on this machine, as everybody else sees it.

    execute -> Supervisor.submit -> its thread -> a child   (see the package's own docstring)
            <- future            <- results_fd <-

Nothing is bound to an event loop for longer than a call: the loop may be another one each time.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Iterable
from typing import Any

from agentmath import _C
from agentmath.config.sandbox import SandboxSection
from agentmath.core.errors import SandboxError
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox import boot, layers, library
from agentmath.sandbox.identity import describe_python

_START_SECONDS = 130.0
_GRACE_SECONDS = 30.0
"""Beyond queue and wall time, after which the supervisor is taken for stuck."""
_CLOSE_SECONDS = 30.0
_SIGNAL_CHECK_SECONDS = 0.1
_FORKS_PER_ZYGOTE = 20_000
_DESCRIPTORS_WANTED = 1 << 16
_KEPT_VARIABLES = ("LD_LIBRARY_PATH",)
"""Without it an interpreter in an unusual place would not start; nothing secret lies in it."""
_HIGHEST = {
    "cpu_seconds": 1e8,
    "wall_seconds": 1e8,
    "memory_bytes": 1 << 60,
    "output_bytes": 1 << 60,
    "file_bytes": 1 << 60,
}
_MAY_BE_ZERO = ("output_bytes", "file_bytes")
_SESSION = "session-"


async def open_sandbox(section: SandboxSection, *, without: Iterable[str] = ()) -> LocalSandbox:
    """A running sandbox. without: layers to leave out, by name (they are reported as missing).

    Raises SandboxError when nothing can be run, or when `strict` misses a layer.
    """
    sandbox = LocalSandbox(section, without=without)
    try:
        await sandbox.start()
    except BaseException:
        await sandbox.close()
        raise
    return sandbox


class LocalSandbox:
    """core.interfaces.Sandbox by local processes.

    The awaitable methods belong to one thread, in which several event loops one after another are fine;
    execute_blocking may be called from any.
    """

    def __init__(self, section: SandboxSection, *, without: Iterable[str] = ()) -> None:
        off = layers.SWITCHED_OFF_WHEN_TRUSTED if section.mode == "trusted" else frozenset[str]()
        left_out = frozenset(without) | off
        unknown = sorted(left_out - set(layers.LEAVES_OPEN))
        if unknown:
            raise SandboxError(f"no such isolation layer: {unknown}; known: {list(layers.LEAVES_OPEN)}")
        if "no_new_privs" in left_out:
            raise SandboxError("no_new_privs cannot be left out: seccomp and Landlock need it")
        self._mode: layers.Mode = section.mode
        self._queue_seconds = section.queue_seconds
        self._limits = limits_of(section)
        self._layers: tuple[layers.Layer, ...] = ()
        self._layer_names: tuple[str, ...] = ()
        self._failure: str | None = None
        self._is_closed = False
        self._owner_pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: asyncio.Future[None] | None = None
        self._calls: dict[int, asyncio.Future[ToolResult]] = {}
        self._closings: dict[int, asyncio.Future[None]] = {}
        self._session_seeds: dict[int, int] = {}
        """Of sessions that have not run anything."""
        _allow_many_descriptors()
        try:
            self._supervisor = _C.sandbox.Supervisor(
                command=[sys.executable, "-s", "-P", "-S", "-B", boot.__file__, _extension_file()],
                environment=_environment(),
                kinds=_kinds(section, left_out),
                bounds=_bounds(self._limits),
                num_workers=section.num_workers or len(os.sched_getaffinity(0)),
                queue_seconds=section.queue_seconds,
                forks_per_zygote=_FORKS_PER_ZYGOTE,
            )
        except RuntimeError as error:
            raise SandboxError(f"the sandbox cannot be started: {error}") from error

    async def start(self) -> None:
        """Wait until the first process has said what it is. Raises SandboxError; see open_sandbox."""
        loop = self._attach()
        self._started = loop.create_future()
        self._take()
        try:
            await asyncio.wait_for(self._started, _START_SECONDS)
        except TimeoutError:
            raise SandboxError(f"the sandbox process did not start within {_START_SECONDS:g} s") from None
        self._check_usable()
        layers.check(self._mode, self._layers)

    def report(self) -> tuple[layers.Layer, ...]:
        """All layers: in force or why not, and what a missing one leaves open."""
        return self._layers

    async def execute(
        self,
        code: str,
        *,
        limits: Limits | None = None,
        session: str | None = None,
        stdin: bytes = b"",
        seed: int | None = None,
    ) -> ToolResult:
        """Run code; see core.interfaces.Sandbox. Cancelling the awaiting task kills the process, session included.

        A session keeps the memory and file limits of its first execution. Raises SandboxError only when the sandbox is
        closed or its process cannot be started any more.
        """
        self._check_usable()
        limits = limits or self._limits
        loop = self._attach()
        number = self._submit(code, limits, session=session, stdin=stdin, seed=seed, is_awaited=False)
        future = self._calls[number] = loop.create_future()
        watchdog = loop.call_later(self._patience_seconds(limits), self._give_up, future)
        try:
            return await future
        except BaseException:
            if self._calls.pop(number, None) is not None:
                self._supervisor.cancel(number)
            raise
        finally:
            watchdog.cancel()

    def execute_blocking(
        self,
        code: str,
        *,
        limits: Limits | None = None,
        session: str | None = None,
        stdin: bytes = b"",
        seed: int | None = None,
    ) -> ToolResult:
        """As execute, for callers without an event loop; other threads go on meanwhile."""
        limits = limits or self._limits
        number = self._submit(code, limits, session=session, stdin=stdin, seed=seed, is_awaited=True)
        deadline = time.monotonic() + self._patience_seconds(limits)
        try:
            while (answer := self._supervisor.wait(number, _SIGNAL_CHECK_SECONDS)) is None:
                if time.monotonic() > deadline:
                    raise _stuck()
        except BaseException:
            self._supervisor.forget(number)
            self._supervisor.cancel(number)
            raise
        if answer[1] == "failed":
            raise SandboxError(answer[2])
        return self._result(*answer[1:])

    async def open_session(self, *, seed: int | None = None) -> str:
        """A new session; its process is made by the first execution, which takes the seed. See core.interfaces."""
        self._check_usable()
        number = self._supervisor.open_session()
        if seed is not None:
            self._session_seeds[number] = seed
        return f"{_SESSION}{number}"

    async def close_session(self, session: str) -> None:
        """End a session; returns when its process is gone. Unknown sessions are ignored."""
        if self._is_closed or self._failure is not None:
            return
        loop = self._attach()
        self._session_seeds.pop(_session_number(session), None)
        number = self._supervisor.close_session(_session_number(session))
        future = self._closings[number] = loop.create_future()
        watchdog = loop.call_later(_CLOSE_SECONDS, self._give_up, future)
        try:
            await future
        finally:
            watchdog.cancel()
            self._closings.pop(number, None)

    async def close(self) -> None:
        """End all processes. What is still running is answered as cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        self._detach()
        cancelled = self._result("cancelled", {}, {"error": b"the sandbox was closed"})
        for future in self._calls.values():
            _settle(future, cancelled)
        self._calls.clear()
        await asyncio.to_thread(self._supervisor.close)
        for closing in self._closings.values():
            _settle(closing, None)

    def _check_usable(self) -> None:
        if os.getpid() != self._owner_pid:
            raise SandboxError("this sandbox belongs to the process that this one was forked from: open another")
        if self._is_closed:
            raise SandboxError("the sandbox is closed")
        if self._failure is not None:
            raise SandboxError(self._failure)

    def _patience_seconds(self, limits: Limits) -> float:
        return self._queue_seconds + min(limits.wall_seconds, _HIGHEST["wall_seconds"]) + _GRACE_SECONDS

    def _submit(
        self,
        code: str,
        limits: Limits,
        *,
        session: str | None,
        stdin: bytes,
        seed: int | None,
        is_awaited: bool,
    ) -> int:
        self._check_usable()
        name = 0 if session is None else _session_number(session)
        seed = self._session_seeds.pop(name, None) if seed is None else seed
        return self._supervisor.submit(
            code.encode("utf-8", "surrogatepass"),
            stdin,
            _bounds(limits),
            session=name,
            seed=None if seed is None else seed % (1 << 64),
            is_awaited=is_awaited,
        )

    def _attach(self) -> asyncio.AbstractEventLoop:
        """Be served by the running loop from now on; an earlier one may have been closed meanwhile."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._detach()
            self._loop = loop
            loop.add_reader(self._supervisor.results_fd, self._take)
        return loop

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._supervisor.results_fd)
        self._loop = None

    def _take(self) -> None:
        for number, event, *rest in self._supervisor.take():
            if event == "ready":
                self._greet(json.loads(rest[0]))
            elif event == "failed":
                self._on_failure(number, rest[0])
            elif event == "closed":
                _settle(self._closings.pop(number, None), None)
            else:
                _settle(self._calls.pop(number, None), self._result(event, *rest))

    def _greet(self, rows: list[tuple[str, bool, str]]) -> None:
        self._layers = layers.report(rows)
        self._layer_names = tuple(layer.name for layer in self._layers if layer.in_force)
        _settle(self._started, None)

    def _on_failure(self, number: int, why: str) -> None:
        if not self._is_closed:
            self._failure = why
        _settle(self._started, None)
        future = self._calls.pop(number, None)
        if future is not None and not future.done() and not future.get_loop().is_closed():
            future.set_exception(SandboxError(why))

    def _give_up(self, future: asyncio.Future[Any]) -> None:
        self._take()  # the answer may have waited here while this process was busy
        if not future.done():
            future.set_exception(_stuck())

    def _result(self, status: str, facts: dict[str, Any], texts: dict[str, bytes | None]) -> ToolResult:
        words: dict[str, Any] = {
            name: text.decode("utf-8", "replace") for name, text in texts.items() if text is not None
        }
        return ToolResult(status=ToolStatus(status), layers=self._layer_names, **facts, **words)


def _stuck() -> SandboxError:
    return SandboxError("the sandbox did not answer within the time that queue, run and kill may take: restart the run")


def _settle(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.get_loop().is_closed() and not future.done():
        future.set_result(value)


def _session_number(session: str) -> int:
    """0 belongs to no session; an unknown number is one that was closed."""
    number = session.removeprefix(_SESSION)
    return int(number) if number.isdigit() else (1 << 64) - 1


def limits_of(section: SandboxSection) -> Limits:
    """What the section allows one execution."""
    return Limits(
        cpu_seconds=section.cpu_seconds,
        wall_seconds=section.wall_seconds,
        memory_bytes=section.memory_bytes,
        output_bytes=section.output_bytes,
        file_bytes=section.file_bytes,
    )


def _bounds(limits: Limits) -> _C.sandbox.Bounds:
    """Limits as numbers that the kernel can take. Raises SandboxError for those that make no sense."""
    bounds: dict[str, Any] = {}
    for name, highest in _HIGHEST.items():
        value = getattr(limits, name)
        if not (value > 0 or (value == 0 and name in _MAY_BE_ZERO)):
            raise SandboxError(f"an execution cannot be limited to {name} = {value}: give a positive number")
        bounds[name] = type(highest)(min(value, highest))
    return _C.sandbox.Bounds(**bounds)


def _kinds(section: SandboxSection, left_out: frozenset[str]) -> list[tuple[str, list[str]]]:
    """A bare zygote, and one that has loaded what takes long to import, if any of it is installed."""
    installed = [name for name in section.preload if importlib.util.find_spec(name) is not None]
    setup = {
        "python": describe_python(),
        "trainer_pid": os.getpid(),
        "without": sorted(left_out),
        "readable": library.readable_paths(),
        "needed_paths": library.needed_paths(),
        "library_paths": library.package_folders(),
    }
    bare = json.dumps(setup | {"preload": []}), list[str]()
    if not installed:
        return [bare]
    return [bare, (json.dumps(setup | {"preload": installed}), installed)]


def _environment() -> list[str]:
    """Of the zygotes: nothing of the trainer's. Strings hash alike each time, so that runs can be repeated; arenas for
    each thread would use up the address space that a snippet may have."""
    return [
        "PYTHONHASHSEED=0",
        "MALLOC_ARENA_MAX=1",
        *(f"{name}={os.environ[name]}" for name in _KEPT_VARIABLES if name in os.environ),
    ]


def _extension_file() -> str:
    if _C.__file__ is None:
        raise SandboxError("the compiled part agentmath._C has no file: install the package (pip install .)")
    return _C.__file__


def _allow_many_descriptors() -> None:
    """A live session costs three. The soft limit is for programs that use select; this one does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
