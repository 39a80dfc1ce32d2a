"""Programs as they are cut out of model text."""

from __future__ import annotations

import re
import textwrap
import warnings
from dataclasses import dataclass

from agentmath.formats.faults import Fault

_MAX_COMPILED_CHARS = 20_000
_FENCED = re.compile(r"\A((?:.*?\n)??)[ \t]*```[ \t]*\w*[ \t]*\n(.*?)(?:\n[ \t]*```[ \t]*)?\Z", re.DOTALL)
_LEADING = re.compile("[\n\ufeff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What stands between the marks of a call."""

    source: str
    notice: str | None = None
    """Why it cannot be run, in words for the model."""
    faults: tuple[Fault, ...] = ()


def python_program(written: str) -> Program:
    """A program as it is run: line ends unified, a leading byte order mark gone, otherwise as it was written.

    Only of text that does not compile an outer fence or a common indent is taken off.
    """
    source = written.replace("\r\n", "\n").replace("\r", "\n")
    source = source[_leading(source) :].rstrip("\n")
    faults: tuple[Fault, ...] = ()
    if "```" in source and (fenced := _FENCED.match(source)) and not compiles(source):
        before, source = fenced.groups()
        source = source.strip("\n")
        faults = (Fault.PROSE_IN_PROGRAM,) if before.strip() else ()
    if source[:1] in (" ", "\t") and not compiles(source):
        source = textwrap.dedent(source)
    return Program(source=source.rstrip(), faults=faults)


def compiles(source: str) -> bool:
    """Whether Python takes the text for a program; one that is empty or very long is not tried."""
    if not source or len(source) > _MAX_COMPILED_CHARS:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<code>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def _leading(source: str) -> int:
    match = _LEADING.match(source)
    return match.end() if match else 0
