"""What can be wrong with the form of model text, for counts; none of it is an error of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from agentmath.formats.answer import has_cut_box


class Fault(StrEnum):
    """Why a turn is not well formed."""

    UNCLOSED_CODE = "unclosed_code"
    """A program was begun and not ended: nothing was run."""
    UNCLOSED_THINK = "unclosed_think"
    """The trajectory ended inside a think section."""
    UNCLOSED_BOX = "unclosed_box"
    """A box was opened and not closed: it is no answer."""
    UNCLOSED_FENCE = "unclosed_fence"
    """A fence that holds no program was opened and not closed."""
    STRAY_TAG = "stray_tag"
    """A closing tag without an opening one."""
    INVENTED_OUTPUT = "invented_output"
    """The model wrote an output of its own; it was cut there."""
    EMPTY_PROGRAM = "empty_program"
    PROSE_IN_PROGRAM = "prose_in_program"
    """Words before the fence inside a program; what is in the fence was run."""
    MALFORMED_CALL = "malformed_call"
    """A tool call that cannot be read; the model was told why."""
    UNKNOWN_TOOL = "unknown_tool"
    """A tool call by a name that no tool has; the model was told so."""
    FOREIGN_CALL = "foreign_call"
    """Marks of another protocol, or misspelled ones: nothing was run by them."""


_MARKS = re.compile(
    r"(?<!`)(?:"
    r"(?P<agentmath></?(?:code|interpreter)>)"
    r"|(?P<dual_agent>\[CODE_(?:START|END)\])"
    r"|(?P<tool_call></?tool_(?:call|response)>)"
    r"|(?P<other><function_calls>|<invoke\b|<function=|<\|python_tag\|>|\[TOOL_CALLS\]"
    r"|&lt;/?(?:code|interpreter|tool_call)&gt;))"
    r"|^[ \t]*(?P<markdown>`{3,}[ \t]*(?:python3?|py)[ \t]*\r?$)",
    re.IGNORECASE | re.MULTILINE,
)
"""Marks of calls and outputs, by the dialect whose they are; one that is named in backticks is only spoken of."""


def prose_faults(prose: str, name: str, tags: tuple[str, ...], output_close: str) -> Iterator[Fault]:
    """Faults of text outside of programs, in the dialect of that name with its tags; linear in its length."""
    marks = {(match.lastgroup, match.group()) for match in _MARKS.finditer(prose)}
    if (name, output_close) in marks:
        yield Fault.STRAY_TAG
    if any(kind != name or mark not in tags for kind, mark in marks):
        yield Fault.FOREIGN_CALL
    if has_cut_box(prose):
        yield Fault.UNCLOSED_BOX
