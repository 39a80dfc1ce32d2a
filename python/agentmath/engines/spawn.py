"""Starting and ending the operating-system side of an engine process.

posix_spawn, never fork: the trainer has threads, and memory that no child may inherit. The child leads a process group
of its own, so that Ctrl-C in the trainer's terminal does not reach it and one signal ends it with all that it started.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import agentmath
from agentmath.core.errors import ConfigError, EngineError

MAX_PATH_BYTES = 107
"""sockaddr_un holds 108 with the final zero."""
ENTRY = "agentmath.orchestration.engine_server"
_NOISE = re.compile(r"^(\s|$|Traceback|During handling|The above exception|\[?W\d|.*Warning:)")


@dataclass(slots=True, kw_only=True)
class Home:
    """A private folder of one engine: its socket, its log, and where the other environment finds our package."""

    folder: Path

    @staticmethod
    def make(number: int, parent: str = "") -> Home:
        """Raises ConfigError when a socket's path in it would be longer than the system takes."""
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"agentmath-engine-{number}-", dir=parent or None))
        except OSError as error:
            raise ConfigError(f"engine.socket_dir = {parent!r} cannot hold an engine's socket: {error}") from error
        home = Home(folder=folder)
        if len(os.fsencode(home.socket)) > MAX_PATH_BYTES:
            home.remove()
            raise ConfigError(
                f"the socket path {home.socket} has {len(os.fsencode(home.socket))} bytes, Unix sockets take "
                f"{MAX_PATH_BYTES}: name a shorter folder with engine.socket_dir, or set TMPDIR"
            )
        (folder / "source").mkdir()
        (folder / "source" / "agentmath").symlink_to(Path(agentmath.__file__).parent)
        return home

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def last_words(self) -> str:
        """What the process said last, in one line; empty when it said nothing."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self.log.stat().st_size - 20_000, 0))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        said = [line.strip() for line in lines if not _NOISE.match(line)]
        errors = [line for line in said if re.search(r"error|exception|killed", line, re.IGNORECASE)]
        return (errors or said or [""])[-1][-300:]

    def remove(self, *, keeps_log: bool = False) -> None:
        """Leave nothing, or nothing but the log."""
        if not keeps_log:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self.socket.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "source", ignore_errors=True)


@dataclass(slots=True, kw_only=True)
class Child:
    """A running engine process and the pipe whose closing ends it."""

    pid: int
    lifeline: int
    exit_status: int | None = None
    """As os.waitpid gives it, once known."""

    def has_ended(self) -> bool:
        """Collects the exit status if there is one."""
        if self.exit_status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waits for all children of this process
                pid, status = self.pid, 0
            if pid:
                self.exit_status = status
        return self.exit_status is not None

    def describe_end(self) -> str:
        """How it ended, e.g. "was killed by SIGKILL"."""
        if self.exit_status is None:
            return "is still running"
        code = os.waitstatus_to_exitcode(self.exit_status)
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"

    def kill(self) -> None:
        """End the whole process group and collect it. A second call does nothing: the number may be another's then."""
        if self.lifeline < 0:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.exit_status is None:
            with suppress(ChildProcessError):
                _, self.exit_status = os.waitpid(self.pid, 0)
            self.exit_status = self.exit_status or 0
        os.close(self.lifeline)
        self.lifeline = -1


def listen(home: Home) -> socket.socket:
    """A socket at home.socket that waits for one caller."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        home.socket.unlink(missing_ok=True)
        listener.bind(str(home.socket))
    except OSError as error:
        listener.close()
        raise EngineError(f"no socket can be made at {home.socket}: {error}") from error
    listener.listen(1)
    listener.setblocking(False)
    return listener


def spawn(kind: str, home: Home, *, python: str, num_threads: int) -> Child:
    """Start an engine process that dials home.socket. Raises ConfigError when `python` cannot be run."""
    program = shutil.which(python or sys.executable)
    if program is None:
        raise ConfigError(f"engine.python = {python!r} is no program that can be run; name a Python interpreter")
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    if num_threads:
        environment["OMP_NUM_THREADS"] = str(num_threads)
    if python:
        # Only our package: whatever else lies beside it belongs to the trainer's environment.
        environment["PYTHONPATH"] = str(home.folder / "source")
        environment.pop("PYTHONHOME", None)
        environment.pop("VIRTUAL_ENV", None)
    read_end, write_end = os.pipe()
    log = str(home.log)
    try:
        pid = os.posix_spawn(
            program,
            [program, "-m", ENTRY, kind, str(home.socket)],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read_end, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setpgroup=0,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
        )
    except OSError as error:
        os.close(write_end)
        raise ConfigError(f"engine.python = {python!r} cannot be run: {error}") from error
    finally:
        os.close(read_end)
    return Child(pid=pid, lifeline=write_end)
