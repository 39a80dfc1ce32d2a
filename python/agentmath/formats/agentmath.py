r"""The agentmath dialect: <think>, <code>, <interpreter> and \boxed{}.

    <think>why</think><code>print(6*7)</code><interpreter>42</interpreter>\boxed{42}

Generation pauses at the first </code>; the program runs; its output is inserted; generation goes on. All functions work
on the text of one generation and know nothing of tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentmath.core.types import SpanKind, StopReason, ToolResult, ToolStatus

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
CODE_OPEN, CODE_CLOSE = "<code>", "</code>"
OUTPUT_OPEN, OUTPUT_CLOSE = "<interpreter>", "</interpreter>"
TAGS = (THINK_OPEN, THINK_CLOSE, CODE_OPEN, CODE_CLOSE, OUTPUT_OPEN, OUTPUT_CLOSE)
STOP = (CODE_CLOSE, OUTPUT_OPEN)
"""Where generation pauses: a program is complete, or the model began to invent an output."""

EMPTY_BLOCK_NOTICE = "[the code block was empty: nothing was run]"

_MAX_COMPILED_CHARS = 20_000
_FENCE = re.compile(r"\A(?:.*?\n)??[ \t]*```[ \t]*\w*[ \t]*\n(.*?)(?:\n[ \t]*```[ \t]*)?\Z", re.DOTALL)
_TAG = re.compile("|".join(re.escape(t) for t in TAGS))
_LIVE_TEXT = re.compile(r"</?(?=think>|code>|interpreter>)|\\(?=f?box(?:ed)?\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one generation says."""

    kept: int
    """Characters that count; the rest was written past a closing tag, or is an invented output."""
    spans: tuple[tuple[int, SpanKind], ...]
    """(end, kind) of consecutive spans that cover kept characters."""
    source: str | None = None
    """The program of a completed block."""
    stop_reason: StopReason | None = None
    """Set when the trajectory ends here for a reason of format."""


def read(text: str, *, in_think: bool) -> Reading:
    """Read one generation; in_think says that a think section is open before it.

    The first </code> ends what counts; the program lies between it and the earliest <code> whose content compiles, else
    the nearest one (a tag that is only named in prose does not begin a program).
    """
    close = text.find(CODE_CLOSE)
    invented = text.find(OUTPUT_OPEN)
    if invented >= 0 and (close < 0 or invented < close) and not _is_inside_code(text, invented):
        spans = _spans(text[:invented], None, in_think)
        return Reading(kept=invented, spans=spans, stop_reason=StopReason.INVENTED_OUTPUT)
    if close < 0:
        opened = text.find(CODE_OPEN)
        return Reading(kept=len(text), spans=_spans(text, opened if opened >= 0 else None, in_think))
    kept = close + len(CODE_CLOSE)
    begin, source = _program(text[:close])
    if begin is None:
        return Reading(kept=kept, spans=_spans(text[:kept], None, in_think), stop_reason=StopReason.FORMAT_ERROR)
    return Reading(kept=kept, spans=_spans(text[:kept], begin, in_think), source=source)


def _is_inside_code(text: str, position: int) -> bool:
    return 0 <= text.find(CODE_OPEN) < position


def _program(before: str) -> tuple[int | None, str]:
    """Where the program's tag begins and its source; `before` ends where the closing tag begins."""
    starts = [m.start() for m in re.finditer(re.escape(CODE_OPEN), before)]
    if not starts:
        return None, ""
    sources = [clean_source(before[s + len(CODE_OPEN) :]) for s in starts]
    if len(starts) > 1:
        for start, source in zip(starts, sources, strict=True):
            if _compiles(source):
                return start, source
    return starts[-1], sources[-1]


def _compiles(source: str) -> bool:
    if not source or len(source) > _MAX_COMPILED_CHARS:
        return False
    try:
        compile(source, "<code>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def clean_source(source: str) -> str:
    """A program as it is run: line ends unified, byte order mark and an outer fence removed, inner text untouched."""
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "").strip("\n")
    if "```" in source and (fenced := _FENCE.match(source)) and not _compiles(source):
        source = fenced.group(1).strip("\n")
    return source.rstrip()


def _spans(text: str, code_begin: int | None, in_think: bool) -> tuple[tuple[int, SpanKind], ...]:
    """Kinds of kept text: think sections (tags included), then a program from code_begin to the end."""
    spans: list[tuple[int, SpanKind]] = []
    prose_end = len(text) if code_begin is None else code_begin
    for match in _TAG.finditer(text, 0, prose_end):
        if match.group() == THINK_OPEN and not in_think:
            spans.append((match.start(), SpanKind.ANSWER))
            in_think = True
        elif match.group() == THINK_CLOSE:
            spans.append((match.end(), SpanKind.THINK))
            in_think = False
    spans.append((prose_end, SpanKind.THINK if in_think else SpanKind.ANSWER))
    if code_begin is not None:
        spans.append((len(text), SpanKind.CODE))
    return tuple(spans)


def output_text(result: ToolResult) -> str:
    """What a program's result looks like to the model, before neutralising and cutting.

    Standard output, else the value of a trailing expression; then standard error; then the error's last line; a status
    without any words is named in brackets.
    """
    parts = [result.stdout.rstrip("\n")]
    if not result.stdout and result.value is not None and result.value != "None":
        parts.append(result.value)
    if result.stderr:
        parts.append(result.stderr.rstrip("\n"))
    if result.error:
        parts.append(result.error)
    elif result.status is not ToolStatus.OK:
        detail = {ToolStatus.EXIT: result.exit_code, ToolStatus.SIGNAL: result.signal}.get(result.status)
        parts.append(f"[{result.status.value}{'' if detail is None else f' {detail}'}]")
    return "\n".join(p for p in parts if p)


def neutralise(text: str) -> str:
    """Inserted text that can neither open nor close a tag nor claim an answer: a blank goes behind the first sign."""
    return _LIVE_TEXT.sub(lambda m: m.group() + " ", text)


def wrap_output(text: str) -> str:
    """The block that is inserted after a program."""
    return f"{OUTPUT_OPEN}{text}{OUTPUT_CLOSE}"
