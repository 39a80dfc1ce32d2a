"""One sandbox process as the trainer sees it: starting it, speaking with it from any event loop, ending it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO, Any

from agentmath.core.errors import SandboxError
from agentmath.sandbox import boot, wire

_READ_BYTES = 1 << 18
_EXIT_SECONDS = 10.0
_KEPT_VARIABLES = ("LD_LIBRARY_PATH",)
"""Without it an interpreter in an unusual place would not start; nothing secret lies in it."""


class Link:
    """Process, socket and what is known of them. All methods belong to the thread of the event loop."""

    def __init__(self, setup: wire.Message, *, on_message: Callable[[Link, wire.Message], None]) -> None:
        self.hello: wire.Message | None = None
        self.is_dead = False
        self.num_outstanding = 0
        self._on_message = on_message
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unpacker = wire.Unpacker()
        self._unsent = bytearray()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _bury)
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", boot.__file__, str(theirs.fileno()), _extension_file()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.send(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Be served by this loop from now on; an earlier one may have been closed meanwhile."""
        if loop is self._loop or self.is_dead:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._loop = loop
        loop.add_reader(self._socket, self.receive)
        if self._unsent:
            loop.add_writer(self._socket, self._flush)

    def send(self, message: wire.Message) -> None:
        """Queue a message; a process that is gone is noticed where it is read from."""
        had_unsent = bool(self._unsent)
        self._unsent += wire.pack(message)
        if not had_unsent:
            self._flush()
            if self._unsent and self._loop is not None and not self._loop.is_closed():
                self._loop.add_writer(self._socket, self._flush)

    def receive(self) -> None:
        """Take all that the process has said, and notice when it is gone."""
        while not self.is_dead:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            for message in self._unpacker.feed(data):
                if self.hello is None:
                    self.hello = message
                self._on_message(self, message)
            if not data:
                self._bury()

    def error_text(self) -> str:
        """The last lines the process wrote about itself."""
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode("utf-8", "replace").strip()

    def kill(self) -> None:
        """End a process that no longer answers; its children die with it."""
        if not self.is_dead:
            self._process.kill()

    def hang_up(self) -> None:
        """Ask the process to end everything; its end of the socket closes when it has."""
        if not self.is_dead:
            self._socket.shutdown(socket.SHUT_WR)

    async def wait_until_dead(self) -> None:
        """Return when the process is gone, by force if it takes too long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _EXIT_SECONDS
        while not self.is_dead:
            if loop.time() > deadline:
                self.kill()
            await asyncio.sleep(0.002)
            self.receive()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_writer(self._socket)

    def _bury(self) -> None:
        self.is_dead = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._socket.close()
        self._process.wait()
        self._on_message(self, {"gone": True})
        self._errors.close()


def _extension_file() -> str:
    spec = importlib.util.find_spec("agentmath._C")
    if spec is None or spec.origin is None:
        raise SandboxError("the compiled part agentmath._C is missing: install the package (pip install .)")
    return spec.origin


def describe_python() -> dict[str, Any]:
    """Facts that must be the same on both sides, or another interpreter was started than the one that runs here."""
    return {"version": sys.version, "base_prefix": sys.base_prefix}
