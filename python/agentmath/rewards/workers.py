"""Processes for what may hang or fill the memory: a line in, a line out, a limit of time and memory on each answer.

A worker is a fresh interpreter: the caller is neither forked nor imported anew. It ends by itself when an answer takes
too long, and when the caller is gone, however that ended. (pebble's pool breaks for good when an idle worker is killed,
and its workers import the caller's main module.)
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

_START_SECONDS = 120.0
"""Longest time a fresh worker may take to load the library, on top of the answer's own limit."""
_CLOSE_SECONDS = 2.0
WALL_FACTOR = 4
"""Time by the clock that an answer may take, over its processor time."""
_OUT_OF_TIME = (None, -signal.SIGPROF, -signal.SIGALRM)
"""How a worker ends that took too long; None: it did not hear the signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back for a request."""

    ticket: int
    text: str | None
    """The worker's line; None when the worker was lost."""
    error: str = ""
    """Why the worker was lost."""


@dataclass(slots=True, eq=False)
class _Request:
    ticket: int
    line: bytes
    num_tries: int = 0


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    request: _Request | None = None
    """What it works on."""
    deadline: float = 0.0
    received: bytearray = field(default_factory=bytearray)


class WorkerPool:
    """Requests go to whichever worker is free. Not to be used by two threads at the same time."""

    def __init__(self, module: str, *, num_workers: int, answer_seconds: float, memory_bytes: int) -> None:
        self._command = [sys.executable, "-P", "-m", module, str(answer_seconds), str(memory_bytes)]
        self._num_workers = num_workers
        self._answer_seconds = answer_seconds
        self._workers: list[_Worker] = []
        self._waiting: deque[_Request] = deque()
        self._refused: list[Reply] = []
        """Replies to requests for which no worker could be started."""
        self._num_tickets = 0

    def submit(self, request: object) -> int:
        """Queue a request that JSON can hold, in less than 64 KB; its ticket comes back with the reply."""
        self._num_tickets += 1
        line = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        self._waiting.append(_Request(self._num_tickets, line))
        self._feed()
        return self._num_tickets

    def wait(self) -> list[Reply]:
        """The replies that are there, at least one; every request has a deadline, so this ends."""
        replies: list[Reply] = []
        while not replies:
            self._feed()
            busy = [w for w in self._workers if w.request is not None]
            if not (busy or self._refused):
                raise ValueError("nothing was submitted, so no reply can come")
            replies += [*self._refused, *self._collect(busy)]
            self._refused.clear()
        self._feed()
        return replies

    def abandon(self) -> None:
        """Forget what was submitted; workers that are busy with it are ended."""
        self._waiting.clear()
        self._refused.clear()
        for worker in [w for w in self._workers if w.request is not None]:
            self._end(worker)

    def close(self) -> None:
        """End all workers; nothing is left behind."""
        self.abandon()
        for worker in self._workers:
            with contextlib.suppress(BrokenPipeError):
                _stdin(worker).close()
        for worker in list(self._workers):
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(_CLOSE_SECONDS)
            self._end(worker)

    def _feed(self) -> None:
        while self._waiting and (worker := self._free_worker()) is not None:
            worker.request = request = self._waiting.popleft()
            request.num_tries += 1
            worker.deadline = time.monotonic() + WALL_FACTOR * self._answer_seconds + _START_SECONDS
            # A worker that is gone is noticed, with its exit code, by the end of its replies.
            with contextlib.suppress(BrokenPipeError):
                os.write(_stdin(worker).fileno(), request.line)

    def _free_worker(self) -> _Worker | None:
        for worker in [w for w in self._workers if w.request is None]:
            if worker.process.poll() is None:
                return worker
            self._end(worker)
        if len(self._workers) == self._num_workers:
            return None
        try:
            process = self._start()
        except OSError as fault:
            if not self._workers:
                request = self._waiting.popleft()
                error = f"no process of the grader can be started: {fault}"
                self._refused.append(Reply(ticket=request.ticket, text=None, error=error))
            return None
        self._workers.append(_Worker(process))
        return self._workers[-1]

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        # A session of its own: Ctrl-C is the caller's to hear.
        return subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0, start_new_session=True
        )

    def _collect(self, busy: list[_Worker]) -> Iterator[Reply]:
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(_stdout(worker), selectors.EVENT_READ, worker)
            first = min((worker.deadline for worker in busy), default=0.0)
            ready = {key.data for key, _ in selector.select(max(first - time.monotonic(), 0.0))}
        for worker in busy:
            if worker in ready:
                yield from self._read(worker)
            elif time.monotonic() >= worker.deadline:
                yield from self._lost(worker)

    def _read(self, worker: _Worker) -> Iterator[Reply]:
        assert worker.request is not None
        part = os.read(_stdout(worker).fileno(), 1 << 16)
        if not part:
            yield from self._lost(worker)
            return
        worker.received += part
        if worker.received.endswith(b"\n"):
            yield Reply(ticket=worker.request.ticket, text=worker.received.decode())
            worker.received.clear()
            worker.request = None

    def _lost(self, worker: _Worker) -> Iterator[Reply]:
        """Give a request up, or try it once more: the worker may have been killed before it began."""
        request = worker.request
        assert request is not None
        if time.monotonic() >= worker.deadline:
            worker.process.send_signal(signal.SIGALRM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(_CLOSE_SECONDS)
        code = worker.process.poll()
        if code in _OUT_OF_TIME:
            error = f"the answer took longer than {self._answer_seconds:g} seconds"
        elif code < 0:
            error = f"the grader's process was ended by signal {-code}"
        else:
            error = f"the grader's process ended with exit code {code}"
        self._end(worker)
        if request.num_tries == 1 and code not in _OUT_OF_TIME:
            self._waiting.appendleft(request)
        else:
            yield Reply(ticket=request.ticket, text=None, error=error)

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.wait()
        _stdout(worker).close()
        with contextlib.suppress(BrokenPipeError):
            _stdin(worker).close()


def _stdin(worker: _Worker) -> IO[bytes]:
    assert worker.process.stdin is not None
    return worker.process.stdin


def _stdout(worker: _Worker) -> IO[bytes]:
    assert worker.process.stdout is not None
    return worker.process.stdout
