"""What goes back to the model: the text of a result, cut to size, and unable to pass for anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from agentmath.core.types import ToolResult, ToolStatus

CUT_MARK = "\n[... output truncated ...]\n"
Signs = TypeVar("Signs", str, list[int])

_LIVE = re.compile(
    r"</?(?=(?:think|code|interpreter|tool_call|tool_response|answer)>)"
    r"|<(?=[|\uff5c]|/?s>|(?:start|end)_of_turn>|[be]os>|</?SYS>>)"
    r"|\[(?=(?:CODE_START|CODE_END|TOOL_CALLS|/?INST)\])"
    r"|(?:reasoning|code) agent(?=:)"
    r"|sandbox execution result(?=:)"
    r"|`(?=``)"
    r"|\\(?=f?box(?:ed)?(?![A-Za-z]))",
    re.IGNORECASE,
)
"""Marks of every dialect, boxes, speakers, and the control tokens that model families write as text."""


def result_parts(result: ToolResult) -> Iterator[str]:
    """What a result shows, in order: standard output, else the value of a trailing expression; standard error; how it
    ended if not well: the status in brackets unless it was an exception, and the words that belong to it."""
    if result.stdout:
        yield result.stdout
    elif result.value is not None and result.value != "None":
        yield result.value + "\n"
    if result.stderr:
        yield result.stderr
    is_clean_exit = result.status is ToolStatus.EXIT and result.exit_code == 0
    named = "" if is_clean_exit or result.status in (ToolStatus.OK, ToolStatus.EXCEPTION) else _named(result)
    words = " ".join(part for part in (named, result.error) if part)
    if words:
        yield words + "\n"


def _named(result: ToolResult) -> str:
    detail = {ToolStatus.EXIT: result.exit_code, ToolStatus.SIGNAL: result.signal}.get(result.status)
    return f"[{result.status.value}{'' if detail is None else f' {detail}'}]"


def output_text(result: ToolResult) -> str:
    """What a program's result looks like to the model, before neutralising and cutting."""
    return "\n".join(part for part in (p.rstrip("\n") for p in result_parts(result)) if part)


def printed_text(result: ToolResult) -> str:
    """The same with the line ends that were printed, for people: "42\\n" where the model sees "42"."""
    parts = list(result_parts(result))
    return "".join([*(p if p.endswith("\n") else p + "\n" for p in parts[:-1]), *parts[-1:]])


def neutralise(text: str) -> str:
    """Inserted text that can neither open nor close a mark of any dialect, nor box an answer, nor read as a control
    token or as somebody speaking: a blank goes behind the first sign, or behind a speaker's name."""
    return _LIVE.sub(lambda match: match.group() + " ", text)


def shorten(signs: Signs, mark: Signs, limit: int) -> Signs:
    """Head and tail of what is longer than limit, with the mark between them."""
    if len(signs) <= limit:
        return signs
    room = max(limit - len(mark), 2)
    return signs[: room - room // 2] + mark + signs[len(signs) - room // 2 :]
