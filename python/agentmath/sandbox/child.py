"""One child as the supervisor sees it: its pipes, what it wrote, the block it runs."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from agentmath.sandbox import wire
from agentmath.sandbox.capture import Capture
from agentmath.sandbox.reactor import Timer
from agentmath.sandbox.verdict import Bounds, Report

_READ_BYTES = 1 << 16


@dataclass(slots=True, eq=False)
class Job:
    """One execute call."""

    number: int
    code: str
    stdin: bytes
    bounds: Bounds
    session: str | None
    received: float
    """Monotonic seconds, as are all times here."""
    started: float = 0.0
    is_done: bool = False
    child: Child | None = None
    """The process that runs it, from the start on."""
    queue_timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Child:
    """A forked process, from the request to fork it until it was reaped."""

    number: int
    channel: socket.socket
    out_fd: int
    err_fd: int
    cpu_allowance: int
    """CPU seconds after which the kernel ends the process: the backstop of the supervisor's own clock."""
    session: str | None = None
    pid: int = 0
    """0 until the zygote has said it."""
    job: Job | None = None
    sequence: int = 0
    cpu_before: float = 0.0
    """CPU seconds used when the running block began."""
    out: Capture = field(default_factory=lambda: Capture(0))
    err: Capture = field(default_factory=lambda: Capture(0))
    peak_memory_bytes: int = 0
    """Of a live process, as last read."""
    report: Report | None = None
    kill_reason: str | None = None
    why: str = ""
    wall_timer: Timer | None = None
    cpu_timer: Timer | None = None
    was_reset: bool = False
    """The channel was closed with a command unread: the code never ran."""
    _unsent: bytearray = field(default_factory=bytearray)
    _received: bytearray = field(default_factory=bytearray)

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def is_silent(self) -> bool:
        """Died before it had read its first block, which no model code can bring about."""
        return self.sequence <= 1 and self.report is None and (self.was_reset or self.has_unsent)

    def begin(self, job: Job, *, is_final: bool, now: float) -> None:
        """Hand over a block."""
        self.job = job
        self.sequence += 1
        self.report = None
        self.out = Capture(job.bounds.output_bytes)
        self.err = Capture(job.bounds.output_bytes)
        self.cpu_before = self.cpu_seconds()
        job.started = now
        code = job.code.encode("utf-8", "surrogatepass")
        self._unsent += wire.pack_command(self.sequence, is_final=is_final, code=code, stdin=job.stdin)
        self.send()

    def send(self) -> None:
        """Send what the channel takes."""
        try:
            while self._unsent:
                del self._unsent[: self.channel.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            return  # the child is gone; its exit says the rest

    def receive(self, core: Any) -> list[tuple[int, Report]] | None:
        """(sequence, report) of each frame on the channel; None at its end. Raises ValueError on a malformed one."""
        try:
            data = self.channel.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            self.was_reset = True
            return None
        if not data:
            return None
        self._received += data
        reports: list[tuple[int, Report]] = []
        while (frame := core.parse_report(bytes(self._received))) is not None:
            used, outcome, sequence, exit_code, value, error = frame
            del self._received[:used]
            text = None if value is None else value.decode("utf-8", "replace")
            reports.append((sequence, Report(outcome, exit_code, text, error.decode("utf-8", "replace"))))
        return reports

    def read(self, fd: int) -> bool:
        """Take what stands in an output pipe; False at its end."""
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        (self.out if fd == self.out_fd else self.err).feed(data)
        return True

    def drain(self) -> None:
        """Take all that stands in both output pipes, but no more than ends an execution anyway."""
        for fd, capture in ((self.out_fd, self.out), (self.err_fd, self.err)):
            limit = self.job.bounds.max_output_bytes if self.job else 0
            before = -1
            while fd >= 0 and before != capture.total_bytes <= limit:
                before = capture.total_bytes
                self.read(fd)

    def exceeds_output(self) -> bool:
        """True when either stream wrote more than an execution may."""
        if self.job is None:
            return False
        return max(self.out.total_bytes, self.err.total_bytes) > self.job.bounds.max_output_bytes

    def cpu_seconds(self) -> float:
        """CPU time of the live process so far, all threads, from the kernel's clock of that process."""
        if not self.pid:
            return 0.0
        try:
            return time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return self.cpu_before

    def read_peak_memory(self) -> None:
        """Ask the kernel for the largest resident size of the live process; /proc may not tell."""
        try:
            with open(f"/proc/{self.pid}/status", "rb") as file:
                for line in file:
                    if line.startswith(b"VmHWM:"):
                        self.peak_memory_bytes = int(line.split()[1]) << 10
        except (OSError, ValueError, IndexError):
            return

    def close(self) -> None:
        """Give back all descriptors."""
        self.channel.close()
        for fd in (self.out_fd, self.err_fd):
            if fd >= 0:
                os.close(fd)
        self.out_fd = self.err_fd = -1
