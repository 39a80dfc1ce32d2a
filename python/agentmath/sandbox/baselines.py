"""What an execution in the sandbox is compared with: a process of its own, bubblewrap around one, an empty fork."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_TIMEOUT_SECONDS = 120.0
_FORKS = """
import os, sys, time
for _ in iter(sys.stdin.buffer.readline, b""):
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    usage = os.wait4(pid, 0)[2]
    print(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, flush=True)
"""


class Timing(NamedTuple):
    """One execution."""

    seconds: float
    """From asking until the answer is there."""
    cpu_seconds: float | None
    """Of the process that ran it; None where nobody counts it."""


class CannotMeasureError(Exception):
    """This machine does not run what was to be measured; the text says why."""


def clean_python(folder: Path) -> str:
    """An interpreter whose site-packages is empty, made in folder. Raises CannotMeasureError.

    Files that installed packages run at every start (.pth) may cost more than the start itself, and differ between
    machines. Isolated mode alone (-I) runs them too, and leaving out the site module (-S) is a start nobody uses.
    """
    try:
        venv.create(folder, symlinks=True, with_pip=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotMeasureError(f"no clean interpreter can be made: {error}") from error
    return str(folder / "bin" / "python")


def python_command(python: str, code: str, *, search: Sequence[str] = ()) -> list[str]:
    """Command that runs code; search: folders in which packages are found, without what runs at start."""
    path = f"import sys; sys.path += {list(search)!r}\n" if search else ""
    return [python, "-I", "-c", path + code]


def bubblewrap_command(python: str, code: str) -> list[str]:
    """The same behind all namespaces, a read-only root and a fresh /tmp, /proc and /dev. Raises CannotMeasureError."""
    wrapper = shutil.which("bwrap")
    if wrapper is None:
        raise CannotMeasureError("bwrap is not installed")
    environment = str(Path(python).parents[1])
    mounts = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    mounts += ["--ro-bind", environment, environment]
    return [wrapper, "--unshare-all", "--die-with-parent", *mounts, *python_command(python, code)]


def run_process(command: Sequence[str], expected: str) -> Timing:
    """Run a command to its end. Raises CannotMeasureError unless it succeeds and prints what is expected.

    The CPU time is that of all children which ended meanwhile: right for one call at a time.
    """
    before = _cpu_seconds_of_children()
    start = time.perf_counter()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasureError(f"{command[0]} does not run: {error}") from error
    seconds = time.perf_counter() - start
    if done.returncode != 0 or done.stdout.decode(errors="replace") != expected:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        last = said[-1] if said else "nothing"
        raise CannotMeasureError(f"{command[0]} ended with exit code {done.returncode} and said: {last}")
    return Timing(seconds, _cpu_seconds_of_children() - before)


class EmptyForks:
    """A bare interpreter that forks children which leave at once: what a fork costs on this machine."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _FORKS]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def once(self) -> Timing:
        """Fork, leave, reap. Raises CannotMeasureError."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        try:
            asked.write(b"\n")
            asked.flush()
        except (OSError, ValueError) as error:
            raise CannotMeasureError(f"the forking interpreter is gone: {error}") from error
        words = answers.readline().split()
        if len(words) != 2:
            raise CannotMeasureError("the forking interpreter cannot fork")
        return Timing(float(words[0]), float(words[1]))

    def __enter__(self) -> EmptyForks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
