"""Forks hardened children on request. Single-threaded; never sees code, input or output, so no child can find any here.

Requests and reports are fixed-size records on a SOCK_SEQPACKET pair; a fork request carries the child's descriptors.
"""

from __future__ import annotations

import _sitebuiltins
import atexit
import builtins
import gc
import io
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

from agentmath.sandbox import isolation as layers
from agentmath.sandbox import runner

FORK, KILL, ALLOW_CPU = 1, 2, 3
STARTED, EXITED, NOT_STARTED = 1, 2, 3

REQUEST = struct.Struct("<BIIQQ")
"""kind, child, CPU seconds, memory bytes, file bytes."""
REPORT = struct.Struct("<BIiidQ")
"""kind, child, pid, wait status, CPU seconds, peak memory bytes."""

_CHANNEL = 3
_STACK_BYTES = 16 << 20
_OPEN_FILES = 64
_MAX_TASKS = 512
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": ".",
    "TMPDIR": "./",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_WARM_MODULES = (
    *("math", "cmath", "fractions", "decimal", "operator", "itertools", "functools", "collections", "heapq", "bisect"),
    *("re", "string", "datetime", "json", "copy", "typing", "dataclasses"),
)
"""Cheap to hold and often imported. Not among them: random and threading, whose handlers run after every fork."""


def serve(control: socket.socket, core: Any, setup: dict[str, Any]) -> NoReturn:
    """Enter isolation, say so, then fork and reap until the supervisor is gone."""
    try:
        zygote = _Zygote(control, core, setup)
    except Exception as error:  # the boundary at which a failed start becomes a message
        control.send(json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    hello = {
        "layers": zygote.isolation.rows,
        "scratch_base": zygote.isolation.scratch_base,
        "python": {"version": sys.version, "base_prefix": sys.base_prefix},
    }
    control.send(json.dumps(hello).encode())
    zygote.run()
    os._exit(0)


class _Zygote:
    def __init__(self, control: socket.socket, core: Any, setup: dict[str, Any]) -> None:
        self._control = control
        self._core = core
        self._pid = os.getpid()
        self._children: dict[int, tuple[int, layers.Slot]] = {}
        self._pid_of: dict[int, int] = {}
        os.environ.clear()
        os.environ.update(_ENVIRONMENT)
        for name in (*_WARM_MODULES, *setup["preload"]):
            __import__(name)
        if "numpy" in sys.modules:
            __import__("numpy.random")
        self._statm = os.open("/proc/self/statm", os.O_RDONLY)
        self._null = os.open("/dev/null", os.O_RDWR)
        self.isolation = layers.enter(core, without=frozenset(setup["without"]), needed_paths=setup["needed_paths"])
        has_seccomp = self.isolation.has("seccomp")
        self._policy = core.Policy(allow_metadata=self.isolation.has("mount_namespace")) if has_seccomp else None
        core.hide_memory()
        self._slots = layers.ScratchSlots(core, self.isolation, setup["readable"])
        self._wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        _furnish()
        atexit._clear()  # what imports registered is not for children, which leave as an interpreter would
        while os.dup(self._null) <= _CHANNEL:
            pass  # descriptors that arrive later must not be among those a child replaces
        gc.collect()
        gc.freeze()

    def run(self) -> None:
        """Serve until the supervisor's end is closed, then leave nothing behind."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        is_open = True
        while is_open:
            for fd, _ in poller.poll():
                if fd == self._wake:
                    self._reap()
                else:
                    is_open = self._handle_request()
        for pid in self._pid_of.values():
            os.kill(pid, signal.SIGKILL)
        for pid in list(self._pid_of.values()):
            os.waitpid(pid, 0)
        self._slots.close()

    def _handle_request(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, REQUEST.size, 3)
        if not data:
            return False
        kind, number, cpu_seconds, memory_bytes, file_bytes = REQUEST.unpack(data)
        pid = self._pid_of.get(number)
        if kind == KILL and pid is not None:
            os.kill(pid, signal.SIGKILL)
        elif kind == ALLOW_CPU and pid is not None:
            _limit_cpu(pid, cpu_seconds)
        if kind != FORK:
            return True
        try:
            self._fork(number, fds, cpu_seconds, memory_bytes, file_bytes)
        except (OSError, RuntimeError):
            self._control.send(REPORT.pack(NOT_STARTED, number, 0, 0, 0.0, 0))
        for fd in fds:
            os.close(fd)
        return True

    def _fork(self, number: int, fds: list[int], cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
        slot = self._slots.take(file_bytes)
        address_space, data = self._core.parse_statm(os.pread(self._statm, 256, 0))
        try:
            pid = os.fork()
        except OSError:
            self._slots.give_back(slot)
            raise
        if pid == 0:
            self._become_child(
                fds,
                slot,
                address_space_bytes=address_space + memory_bytes,
                data_bytes=data + memory_bytes,
                file_bytes=file_bytes,
            )
        _limit_cpu(pid, cpu_seconds)
        self._children[pid] = number, slot
        self._pid_of[number] = pid
        self._control.send(REPORT.pack(STARTED, number, pid, 0, 0.0, 0))

    def _become_child(self, fds: list[int], slot: layers.Slot, **limits: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            channel, out, err = fds
            os.dup2(self._null, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.dup2(channel, _CHANNEL)
            os.chdir(slot.path)
            _reseed()
            gc.enable()
            self._core.harden(
                parent=self._pid,
                first_closed_fd=_CHANNEL + 1,
                landlock_ruleset=slot.ruleset,
                policy=self._policy,
                stack_bytes=_STACK_BYTES,
                open_files=_OPEN_FILES,
                processes=_MAX_TASKS if self.isolation.counts_processes_apart else 0,
                **limits,
            )
        except BaseException as error:  # nothing may run in a child that is not hardened
            os.write(2, f"hardening failed: {type(error).__name__}: {error}".encode())
            os._exit(runner.HARDENING_FAILED)
        runner.serve(_CHANNEL, self._core.encode_report)

    def _reap(self) -> None:
        os.read(self._wake, 4096)
        while self._children:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            number, slot = self._children.pop(pid)
            del self._pid_of[number]
            self._slots.give_back(slot)
            cpu_seconds = usage.ru_utime + usage.ru_stime
            self._control.send(REPORT.pack(EXITED, number, pid, status, cpu_seconds, usage.ru_maxrss << 10))


def _limit_cpu(pid: int, seconds: int) -> None:
    """Set here and not by the child, which might undo a limit that was raised meanwhile. Soft, so that it can be."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    soft = seconds if hard == resource.RLIM_INFINITY else min(seconds, hard)
    resource.prlimit(pid, resource.RLIMIT_CPU, (soft, hard))


def _furnish() -> None:
    """Set what children find, here and not in each of them, since every page that a child changes is copied for it."""
    sys.stdin = sys.__stdin__ = runner.input_stream(b"")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _output_stream(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _output_stream(2)  # type: ignore[misc]
    sys.argv = [""]
    # The interpreter was started without the site module, which gives these names.
    builtins.exit = builtins.quit = sys.exit
    builtins.help = _sitebuiltins._Helper()


def _output_stream(fd: int) -> io.TextIOWrapper:
    """Line-buffered, so that what was printed before a kill is not lost."""
    buffered = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
    return io.TextIOWrapper(buffered, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _reseed() -> None:
    """Children share the zygote's memory, random state included; `random` reseeds itself at fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
