"""The sandbox process's main part: the queue, the sessions, and the conversation with the trainer.

One thread, one epoll. It holds what must not leak between snippets, so it forks nothing: the zygote does, and never
sees code or output. When the trainer is gone it ends everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentmath.sandbox import wire
from agentmath.sandbox.child import Child, Job
from agentmath.sandbox.isolation import SCRATCH_PREFIX, remove_tree
from agentmath.sandbox.nursery import Nursery
from agentmath.sandbox.reactor import Outbox, Reactor
from agentmath.sandbox.verdict import Bounds, Verdict

_IDLE_SWEEP_SECONDS = 1.0
_ZYGOTE_EXIT_SECONDS = 5.0
_READ_BYTES = 1 << 18


def run(trainer: socket.socket, control: socket.socket, core: Any, *, zygote_pid: int, setup: dict[str, Any]) -> None:
    """Serve the trainer until it or the zygote is gone."""
    core.hide_memory()
    hello = json.loads(control.recv(1 << 20) or b'{"failed": "the zygote ended at once"}')
    trainer.sendall(wire.pack(hello))
    if "failed" not in hello:
        Supervisor(trainer, control, core, setup).run()
    control.close()
    _end_zygote(zygote_pid)
    scratch_base = hello.get("scratch_base", "")
    if os.path.basename(scratch_base).startswith(SCRATCH_PREFIX) and os.path.isdir(scratch_base):
        remove_tree(scratch_base)


def _end_zygote(pid: int) -> None:
    deadline = time.monotonic() + _ZYGOTE_EXIT_SECONDS
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.001)


@dataclass(slots=True, eq=False)
class _Session:
    child: Child | None = None
    is_busy: bool = False
    ended: str | None = None
    """Why its process is gone."""
    waiting: deque[Job] = field(default_factory=deque)
    closers: list[int] = field(default_factory=list)
    """Numbers of close requests that wait for the process to be gone."""


class Supervisor:
    """State of one sandbox process."""

    def __init__(self, trainer: socket.socket, control: socket.socket, core: Any, setup: dict[str, Any]) -> None:
        self._trainer = trainer
        self._num_workers: int = setup["num_workers"]
        self._queue_seconds: float = setup["queue_seconds"]
        self._idle_cpu_seconds: float = setup["cpu_seconds"]
        self._unpacker = wire.Unpacker()
        self._queue: deque[Job] = deque()
        self._jobs: dict[int, Job] = {}
        self._sessions: dict[str, _Session] = {}
        self._num_running = 0
        self._is_open = True
        self._reactor = Reactor()
        self._nursery = Nursery(control, core, self._reactor, self)
        trainer.setblocking(False)
        self._reactor.watch(trainer.fileno(), self._on_trainer)
        self._to_trainer = Outbox(trainer, self._reactor)
        self._trainer_pid: int = setup["trainer_pid"]
        self._watch_trainer_process()
        self._reactor.after(_IDLE_SWEEP_SECONDS, self._sweep_idle_sessions)
        self._nursery.park(
            self._num_workers,
            memory_bytes=setup["memory_bytes"],
            file_bytes=setup["file_bytes"],
            cpu_seconds=setup["cpu_seconds"],
        )

    def run(self) -> None:
        """The loop; returns when either neighbour is gone."""
        while self._is_open:
            self._reactor.run_once()
            self._admit()

    def _watch_trainer_process(self) -> None:
        """Its end of the socket may live on in processes it forked; its own death must end us all the same."""
        with contextlib.suppress(OSError):  # a kernel without pidfds: the sweep will notice
            self._reactor.watch(os.pidfd_open(self._trainer_pid), self._look_for_trainer)
        self._look_for_trainer()

    def _look_for_trainer(self, _: int = 0) -> None:
        if os.getppid() != self._trainer_pid:
            self._is_open = False

    def _on_trainer(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._to_trainer.flush()
        try:
            data = self._trainer.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._is_open = False
            return
        for message in self._unpacker.feed(data):
            kind = message["do"]
            if kind == "run":
                self._accept(message)
            elif kind == "cancel":
                self._cancel(message["job"])
            else:
                self._close_session(message["session"], message["job"])

    def _accept(self, message: wire.Message) -> None:
        job = Job(
            number=message["job"],
            code=message["code"],
            stdin=message["stdin"].encode("latin-1"),
            bounds=Bounds(**{name: message[name] for name in Bounds.__slots__}),
            session=message["session"],
            received=time.monotonic(),
        )
        self._jobs[job.number] = job
        self._queue.append(job)
        job.queue_timer = self._reactor.after(self._queue_seconds, partial(self._give_up_waiting, job))

    def _give_up_waiting(self, job: Job) -> None:
        self._answer(job, Verdict("queue_timeout", f"no worker was free within {self._queue_seconds:g} s"))

    def _cancel(self, number: int) -> None:
        job = self._jobs.get(number)
        if job is None:
            return
        if job.child is not None:
            self._nursery.kill(job.child, "cancelled", "cancelled by the caller")
        else:
            self._answer(job, Verdict("cancelled", "cancelled by the caller"))

    def _close_session(self, name: str, number: int) -> None:
        for job in [job for job in self._jobs.values() if job.session == name and job.child is None]:
            self._answer(job, Verdict("cancelled", "the session was closed"))
        session = self._sessions.get(name)
        if session is None or session.child is None:
            self._sessions.pop(name, None)
            self._to_trainer.send(wire.pack({"closed": number}))
            return
        session.closers.append(number)
        self._nursery.kill(session.child, "cancelled", "the session was closed")

    def _admit(self) -> None:
        while self._queue and self._num_running < self._num_workers:
            job = self._queue.popleft()
            if job.is_done:
                continue
            if job.session is None:
                self._start(job, None)
                continue
            session = self._sessions.setdefault(job.session, _Session())
            if session.ended is not None:
                self._answer(job, Verdict("session_lost", session.ended))
            elif session.is_busy:
                session.waiting.append(job)
            else:
                self._start(job, session)

    def _start(self, job: Job, session: _Session | None) -> None:
        child = session.child if session is not None else None
        if child is None:
            try:
                child = self._nursery.take(job)
            except OSError as error:
                self._answer(job, Verdict("sandbox_error", f"no descriptors for a child: {error}"))
                return
        if session is not None:
            session.child, session.is_busy = child, True
        if job.queue_timer is not None:
            job.queue_timer.cancel()
        job.child = child
        self._num_running += 1
        self._nursery.begin(child, job)

    def block_ended(self, child: Child, verdict: Verdict, *, cpu_seconds: float, peak_memory_bytes: int) -> None:
        """Answer the job and free its worker."""
        assert child.job is not None
        self._num_running -= 1
        self._answer(child.job, verdict, cpu_seconds=cpu_seconds, peak_memory_bytes=peak_memory_bytes)
        if child.session is not None:
            session = self._sessions[child.session]
            session.is_busy = False
            if session.waiting:
                self._queue.appendleft(session.waiting.popleft())

    def child_gone(self, child: Child, why: str) -> None:
        """A session whose process is gone can only be closed."""
        if child.session is None:
            return
        session = self._sessions[child.session]
        session.child, session.ended = None, f"the session ended: {why}"
        for number in session.closers:
            self._to_trainer.send(wire.pack({"closed": number}))
        if session.closers:
            del self._sessions[child.session]

    def zygote_gone(self) -> None:
        """The trainer sees the end of the stream and starts another sandbox process."""
        self._is_open = False

    def _sweep_idle_sessions(self) -> None:
        """Threads left behind by a block may not compute for free until the next one."""
        self._look_for_trainer()
        for session in self._sessions.values():
            child = session.child
            if child is None or session.is_busy or not child.pid:
                continue
            if child.cpu_seconds() - child.cpu_before > self._idle_cpu_seconds:
                self._nursery.kill(child, "session_lost", "it went on computing between its blocks")
        self._reactor.after(_IDLE_SWEEP_SECONDS, self._sweep_idle_sessions)

    def _answer(self, job: Job, verdict: Verdict, *, cpu_seconds: float = 0.0, peak_memory_bytes: int = 0) -> None:
        if job.is_done:
            return
        job.is_done = True
        if job.queue_timer is not None:
            job.queue_timer.cancel()
        del self._jobs[job.number]
        now = time.monotonic()
        record = verdict._asdict()
        record["job"] = job.number
        record["queue_seconds"] = (job.started or now) - job.received
        record["wall_seconds"] = now - job.started if job.started else 0.0
        record["cpu_seconds"] = cpu_seconds
        record["peak_memory_bytes"] = peak_memory_bytes
        child = job.child
        if child is not None:
            record["stdout"], record["stdout_bytes"] = child.out.text(), child.out.total_bytes
            record["stderr"], record["stderr_bytes"] = child.err.text(), child.err.total_bytes
        self._to_trainer.send(wire.pack(record))
