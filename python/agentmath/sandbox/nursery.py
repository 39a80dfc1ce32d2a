"""All live children: starting blocks in them, watching time and output, and learning how each block and child ends."""

from __future__ import annotations

import math
import os
import select
import socket
import time
from collections import deque
from functools import partial
from typing import Any, Protocol

from agentmath.sandbox import verdict as verdicts
from agentmath.sandbox import zygote
from agentmath.sandbox.child import Child, Job
from agentmath.sandbox.reactor import Outbox, Reactor
from agentmath.sandbox.verdict import Verdict

_SHORTEST_CPU_CHECK_SECONDS = 0.002
_MAX_CORES_ASSUMED = 4
_NEGLIGIBLE_CPU_SECONDS = 0.001
"""In less time a block cannot fill memory to speak of, and asking for its peak would cost as much as the block."""
_BLOCKS_PER_ALLOWANCE = 8
"""How many more blocks a session may run before the kernel's limit must be raised again."""


class Ends(Protocol):
    """Who is told how things end."""

    def block_ended(self, child: Child, verdict: Verdict, *, cpu_seconds: float, peak_memory_bytes: int) -> None:
        """The block that child.job asked for is over; child.job is cleared afterwards."""
        ...

    def child_gone(self, child: Child, why: str) -> None:
        """The process is dead and reaped."""
        ...

    def zygote_gone(self) -> None:
        """No child can be started or reaped any more."""
        ...


class Nursery:
    """Speaks with the zygote and the children it forked."""

    def __init__(self, control: socket.socket, core: Any, reactor: Reactor, ends: Ends) -> None:
        self._control, self._core, self._reactor, self._ends = control, core, reactor, ends
        self._children: dict[int, Child] = {}
        self._parked: deque[Child] = deque()
        self._num_to_park = 0
        self._parked_limits = 0, 0
        self._cpu_allowance = 1
        self._num_started = 0
        # Several threads use CPU time faster than the clock runs.
        self._num_cores = min(_MAX_CORES_ASSUMED, os.cpu_count() or 1)
        control.setblocking(False)
        reactor.watch(control.fileno(), self._on_zygote)
        self._to_zygote = Outbox(control, reactor)

    def park(self, count: int, *, memory_bytes: int, file_bytes: int, cpu_seconds: float) -> None:
        """Keep up to count children ready for jobs with these limits, the ones that are set at birth."""
        self._num_to_park, self._parked_limits = count, (memory_bytes, file_bytes)
        self._cpu_allowance = math.ceil(cpu_seconds) + 1
        self._refill()

    def take(self, job: Job) -> Child:
        """A parked child if its limits are the job's, else a new one. Raises OSError when out of descriptors."""
        limits = job.bounds.memory_bytes, job.bounds.file_bytes
        child = self._parked.popleft() if self._parked and limits == self._parked_limits else self._spawn(*limits)
        child.session = job.session
        return child

    def _refill(self) -> None:
        try:
            while len(self._parked) < self._num_to_park:
                self._parked.append(self._spawn(*self._parked_limits))
        except OSError:
            return  # jobs will make their own, or say why they cannot

    def _spawn(self, memory_bytes: int, file_bytes: int) -> Child:
        channel, theirs = socket.socketpair()
        fds: list[int] = []
        try:
            fds += os.pipe()
            fds += os.pipe()
        except OSError:
            for fd in fds:
                os.close(fd)
            channel.close()
            theirs.close()
            raise
        out_fd, out_end, err_fd, err_end = fds
        channel.setblocking(False)
        os.set_blocking(out_fd, False)
        os.set_blocking(err_fd, False)
        self._num_started += 1
        child = Child(self._num_started, channel, out_fd, err_fd, self._cpu_allowance)
        self._children[child.number] = child
        self._reactor.watch(channel.fileno(), partial(self._on_channel, child))
        self._ask(zygote.FORK, child, memory_bytes, file_bytes, fds=(theirs.detach(), out_end, err_end))
        return child

    def begin(self, child: Child, job: Job) -> None:
        """Hand over a block; its wall clock starts now."""
        self._reactor.watch(child.out_fd, partial(self._on_output, child, child.out_fd))
        self._reactor.watch(child.err_fd, partial(self._on_output, child, child.err_fd))
        child.begin(job, is_final=job.session is None, now=time.monotonic())
        needed = child.cpu_before + job.bounds.cpu_seconds
        if needed + 1 > child.cpu_allowance:
            child.cpu_allowance = math.ceil(needed + _BLOCKS_PER_ALLOWANCE * job.bounds.cpu_seconds) + 1
            self._ask(zygote.ALLOW_CPU, child)
        if child.has_unsent:
            self._reactor.watch_writing(child.channel.fileno(), True)
        bounds = job.bounds
        child.wall_timer = self._reactor.after(bounds.wall_seconds, partial(self._on_wall_limit, child))
        child.cpu_timer = self._reactor.after(bounds.cpu_seconds / self._num_cores, partial(self._on_cpu_check, child))

    def kill(self, child: Child, reason: str, why: str) -> None:
        """End a child; reason becomes the status of what it runs. The first reason stands."""
        if child.kill_reason is None:
            child.kill_reason, child.why = reason, why
            self._ask(zygote.KILL, child)

    def _ask(
        self, kind: int, child: Child, memory_bytes: int = 0, file_bytes: int = 0, *, fds: tuple[int, ...] = ()
    ) -> None:
        request = zygote.REQUEST.pack(kind, child.number, child.cpu_allowance, memory_bytes, file_bytes)
        self._to_zygote.send(request, fds=fds)

    def _on_output(self, child: Child, fd: int, _: int) -> None:
        if not child.read(fd):
            self._reactor.forget(fd)
        elif child.exceeds_output():
            self._kill_for_output(child)

    def _kill_for_output(self, child: Child) -> None:
        assert child.job is not None
        self.kill(child, "output_limit", f"more than {child.job.bounds.max_output_bytes} bytes of output")

    def _on_wall_limit(self, child: Child) -> None:
        assert child.job is not None
        self.kill(child, "wall_timeout", f"ran longer than {child.job.bounds.wall_seconds:g} s")

    def _on_cpu_check(self, child: Child) -> None:
        assert child.job is not None
        limit = child.job.bounds.cpu_seconds
        left = limit - (child.cpu_seconds() - child.cpu_before)
        if left <= 0:
            self.kill(child, "cpu_timeout", f"used more than {limit:g} s of CPU time")
            return
        seconds = max(_SHORTEST_CPU_CHECK_SECONDS, left / self._num_cores)
        child.cpu_timer = self._reactor.after(seconds, partial(self._on_cpu_check, child))

    def _on_channel(self, child: Child, events: int) -> None:
        if events & select.EPOLLOUT:
            child.send()
            if not child.has_unsent:
                self._reactor.watch_writing(child.channel.fileno(), False)
        if events & ~select.EPOLLOUT:
            self._take_reports(child)

    def _take_reports(self, child: Child) -> None:
        try:
            reports = child.receive(self._core)
        except ValueError as error:
            self._reactor.forget(child.channel.fileno())
            self.kill(child, "protocol_error", str(error))
            return
        if reports is None:
            self._reactor.forget(child.channel.fileno())
            return
        for sequence, report in reports:
            if child.job is None or child.report is not None or sequence != child.sequence:
                self.kill(child, "protocol_error", "a report that nobody waits for")
                return
            child.report = report
            if child.session is not None and child.kill_reason is None:
                self._finish_live(child)

    def _finish_live(self, child: Child) -> None:
        """A session's block is over and its process waits for the next."""
        assert child.report is not None
        child.drain()
        if child.exceeds_output():
            self._kill_for_output(child)
            return
        cpu_now = child.cpu_seconds()
        used, child.cpu_before = cpu_now - child.cpu_before, cpu_now
        if used > _NEGLIGIBLE_CPU_SECONDS or not child.peak_memory_bytes:
            child.read_peak_memory()
        self._end_block(child, verdicts.of_live_child(child.report), used, child.peak_memory_bytes)

    def _end_block(self, child: Child, verdict: Verdict, cpu_seconds: float, peak_memory_bytes: int) -> None:
        for timer in (child.wall_timer, child.cpu_timer):
            if timer is not None:
                timer.cancel()
        # What a session writes between blocks stays in its pipes until the next one.
        self._reactor.forget(child.out_fd)
        self._reactor.forget(child.err_fd)
        self._ends.block_ended(child, verdict, cpu_seconds=cpu_seconds, peak_memory_bytes=peak_memory_bytes)
        child.job = None
        self._refill()  # now and not at the start: a fork would keep the zygote from telling that the child is gone

    def _on_zygote(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._to_zygote.flush()
        while True:
            try:
                data = self._control.recv(zygote.REPORT.size)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._ends.zygote_gone()
                return
            kind, number, pid, wait_status, cpu_seconds, peak_memory = zygote.REPORT.unpack(data)
            if kind == zygote.STARTED:
                self._children[number].pid = pid
                continue
            child = self._children.pop(number)
            if kind == zygote.EXITED:
                self._bury(child, wait_status, cpu_seconds, peak_memory)
            else:
                self._end_block(child, Verdict("sandbox_error", "the zygote could not fork a child"), 0.0, 0)
                self._discard(child, "no process could be made for it")

    def _bury(self, child: Child, wait_status: int, cpu_seconds: float, peak_memory: int) -> None:
        why = f"{child.kill_reason}: {child.why}" if child.kill_reason else "the process ended between two blocks"
        while self._reactor.watches(child.channel.fileno()) and child.report is None:
            self._take_reports(child)
        if child.job is not None:
            child.drain()
            if child.exceeds_output():
                self._kill_for_output(child)
            if child.is_silent and child.kill_reason is None:
                verdict = Verdict("sandbox_error", f"the child never took its code: {child.err.text()}")
            else:
                verdict = verdicts.of_dead_child(
                    wait_status=wait_status, kill_reason=child.kill_reason, why=child.why, report=child.report
                )
            why = f"{verdict.status}: {verdict.error or ''}"
            self._end_block(child, verdict, max(0.0, cpu_seconds - child.cpu_before), peak_memory)
        self._discard(child, why)

    def _discard(self, child: Child, why: str) -> None:
        if child in self._parked:
            self._parked.remove(child)
        self._reactor.forget(child.channel.fileno())
        child.close()
        self._ends.child_gone(child, why)
