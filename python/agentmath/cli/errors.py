"""The boundary at which errors become words for a person and an exit code."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import ParamSpec

import typer

from agentmath.core.errors import AgentmathError, Interrupted
from agentmath.orchestration.interrupts import raised_once

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EIO,
)
TRACEBACK_VARIABLE = "AGENTMATH_TRACEBACK"
Parameters = ParamSpec("Parameters")


def guarded(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """A command that reports an AgentmathError in its own words and ends with the error's exit code.

    AGENTMATH_TRACEBACK=1 in the environment shows the traceback instead. So is what the machine refuses: a full disk, a
    file that may not be read. Other exceptions are defects of the program and keep their traceback. Ctrl-C and SIGTERM
    are heard once.
    """

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            with raised_once():
                command(*args, **kwargs)
        except AgentmathError as error:
            if os.environ.get(TRACEBACK_VARIABLE) == "1":
                raise
            raise typer.Exit(report(error)) from error
        except OSError as error:
            said = _refusal(error)
            if said is None:
                raise
            raise typer.Exit(report(AgentmathError(said))) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(report(Interrupted(f"stopped by {error or 'Ctrl-C'}"))) from error

    return run


def _refusal(error: OSError) -> str | None:
    """What the machine refused, in words; None for an error that is more likely the program's own."""
    if error.errno in _FULL:
        return f"nothing more can be written: {error}; free some space"
    if error.errno in _REFUSED and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}; check the path, its owner and its permissions"
    return None


def report(error: AgentmathError) -> int:
    """Print an error on stderr; returns the exit code that belongs to it."""
    prefix = "" if isinstance(error, Interrupted) else "error: "
    print(f"{prefix}{error}", file=sys.stderr, flush=True)
    return error.exit_code


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, one a line."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
