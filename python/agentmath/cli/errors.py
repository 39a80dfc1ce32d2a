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

TRACEBACK_VARIABLE = "AGENTMATH_TRACEBACK"
Parameters = ParamSpec("Parameters")


def guarded(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """A command that reports an AgentmathError in its own words and ends with the error's exit code.

    AGENTMATH_TRACEBACK=1 in the environment shows the traceback instead. So is a full disk reported. Other exceptions
    are defects of the program and keep their traceback.
    """

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except AgentmathError as error:
            if os.environ.get(TRACEBACK_VARIABLE) == "1":
                raise
            raise typer.Exit(report(error)) from error
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise typer.Exit(
                report(AgentmathError(f"nothing more can be written: {error}; free some space"))
            ) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(report(Interrupted("stopped by Ctrl-C"))) from error

    return run


def report(error: AgentmathError) -> int:
    """Print an error on stderr; returns the exit code that belongs to it."""
    prefix = "" if isinstance(error, Interrupted) else "error: "
    print(f"{prefix}{error}", file=sys.stderr, flush=True)
    return error.exit_code


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, one a line."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
