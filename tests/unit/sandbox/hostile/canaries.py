"""What an attacker would like to have or harm, planted in the trainer so that it shows when somebody got there."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType


class Canaries:
    """A secret in the environment, in a file, in a descriptor and in memory; listeners; a process to shoot at."""

    def __init__(self) -> None:
        self.secret = f"canary-{secrets.token_hex(8)}"
        self._mark = f"hostile-{secrets.token_hex(6)}"
        self._folder = Path(tempfile.mkdtemp(prefix="canaries-"))
        self._folder.chmod(0o755)
        self._file = self._folder / "checkpoint.bin"
        self._file.write_text(self.secret)
        self._file.chmod(0o666)

    def __enter__(self) -> Canaries:
        os.environ["AGENTMATH_CANARY"] = self.secret
        self._descriptor = os.open(self._file, os.O_RDWR)
        os.set_inheritable(self._descriptor, True)
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind(f"\0{self._mark}")
        self._abstract.listen()
        for listener in (self._tcp, self._abstract):
            listener.setblocking(False)
        # Of another POSIX session, so that no signal to our own group reaches it.
        code = "import time; time.sleep(600)"
        self._victim = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        del os.environ["AGENTMATH_CANARY"]
        os.close(self._descriptor)
        self._tcp.close()
        self._abstract.close()
        self._victim.kill()
        self._victim.wait()
        shutil.rmtree(self._folder)

    def fill_in(self, code: str) -> str:
        """code with @FILE@, @MARK@, @PORT@, @VICTIM@, @TRAINER@, @DESCRIPTOR@, @HOME@ and @REPOSITORY@ replaced."""
        for name, text in {
            "@FILE@": str(self._file),
            "@MARK@": self._mark,
            "@PORT@": str(self._tcp.getsockname()[1]),
            "@VICTIM@": str(self._victim.pid),
            "@TRAINER@": str(os.getpid()),
            "@DESCRIPTOR@": str(self._descriptor),
            "@HOME@": pwd.getpwuid(0).pw_dir,  # of the superuser, whoever runs this
            "@REPOSITORY@": str(Path(__file__).resolve().parents[4]),
        }.items():
            code = code.replace(name, text)
        return code

    def touched(self) -> list[str]:
        """What somebody got to: listeners that were called, a file that was changed, a process that was killed."""
        found: list[str] = []
        for name, listener in (("TCP listener", self._tcp), ("abstract socket", self._abstract)):
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            found.append(name)
        if self._file.read_text() != self.secret:
            found.append("file")
        if self._victim.poll() is not None:
            found.append("process")
        found += [str(path) for place in ("/tmp", "/dev/shm", "/var/tmp") for path in Path(place).glob(self._mark)]
        return found
