"""What a dialect is: how programs, outputs and answers stand in text, as one record of values and functions.

A dialect knows text and nothing of tokens. It is given one generation at a time and says what of it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentmath.core.types import SpanKind, StopReason
from agentmath.formats.faults import Fault, prose_faults
from agentmath.formats.source import Program

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
THINK_TAGS = (THINK_OPEN, THINK_CLOSE)
"""Every dialect knows think sections: models that have them write them whatever else they were told."""
EMPTY_BLOCK_NOTICE = "[the code block was empty: nothing was run]"

_THINK = re.compile(f"{THINK_OPEN}|{THINK_CLOSE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a dialect finds in one generation."""

    kept: int
    """Characters that count; the rest was written past a closing mark, or is an invented output."""
    begin: int | None = None
    """Where the program's opening mark begins; None where there is none."""
    program: Program | None = None
    """The program of a call that was completed."""
    stop_reason: StopReason | None = None
    """Set when the trajectory ends here for a reason of form."""
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one generation says."""

    kept: int
    """Characters that count."""
    spans: tuple[tuple[int, SpanKind], ...]
    """(end, kind) of consecutive spans that cover kept characters."""
    source: str | None = None
    """The program to run."""
    notice: str | None = None
    """What the model is told in place of an output when its call cannot be run."""
    stop_reason: StopReason | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way of calling the tool and of stating the answer."""

    name: str
    tags: tuple[str, ...]
    """Marks that a tokenizer must be able to say."""
    stop: tuple[str, ...]
    """Texts at which generation pauses: a call is complete, or the model began to invent an output."""
    call_open: str
    """What a call begins with."""
    output_open: str
    """What is inserted before an output."""
    output_close: str
    stored_output: re.Pattern[str]
    """An output as it stands in a stored trajectory, blanks before it included; group 1 is what was printed."""
    find: Callable[[str], Found]
    """Finds the call in one generation."""
    answer: Callable[[str], str | None]
    """The final answer in model text outside of programs."""
    answer_form: str
    """How the answer is stated, in words."""
    write_call: Callable[[str, str], str]
    """(thought, program) as a turn that thinks and calls."""
    write_answer: Callable[[str, str], str]
    """(thought or nothing, answer) as a last turn."""
    instructions: str
    """What a model that was not trained on the dialect must be told."""

    def read(self, text: str, *, in_think: bool) -> Reading:
        """Read one generation; in_think says that a think section is open before it. Never raises."""
        found = self.find(text)
        spans, ends_in_think = _spans(text[: found.kept], found.begin, in_think)
        prose = text[: found.kept if found.begin is None else found.begin]
        own = self.output_close.strip()
        faults = [*found.faults, *prose_faults(prose, self.name, self.tags, own)]
        source = notice = None
        if found.program is not None:
            faults += found.program.faults
            source, notice = found.program.source, found.program.notice
            if notice is None and not source.strip():
                notice = EMPTY_BLOCK_NOTICE
                faults.append(Fault.EMPTY_PROGRAM)
        elif found.begin is not None:
            faults.append(Fault.UNCLOSED_CODE)
        elif ends_in_think and found.stop_reason is None:
            faults.append(Fault.UNCLOSED_THINK)
        return Reading(
            kept=found.kept,
            spans=spans,
            source=source if notice is None else None,
            notice=notice,
            stop_reason=found.stop_reason,
            faults=tuple(dict.fromkeys(faults)),
        )

    def wrap(self, output: str) -> str:
        """An output as it is inserted after a call."""
        return f"{self.output_open}{output}{self.output_close}"

    def unwrap(self, inserted: str) -> str:
        """The output in inserted text; text that was not wrapped stays as it is."""
        if inserted.startswith(self.output_open) and inserted.endswith(self.output_close):
            return inserted[len(self.output_open) : len(inserted) - len(self.output_close)]
        return inserted


def _spans(text: str, code_begin: int | None, in_think: bool) -> tuple[tuple[tuple[int, SpanKind], ...], bool]:
    """Kinds of kept text: think sections (tags included), then a program from code_begin to the end.

    Also whether a think section is open where the prose ends.
    """
    spans: list[tuple[int, SpanKind]] = []
    prose_end = len(text) if code_begin is None else code_begin
    for match in _THINK.finditer(text, 0, prose_end):
        if match.group() == THINK_CLOSE:
            spans.append((match.end(), SpanKind.THINK))
            in_think = False
        elif not in_think:
            spans.append((match.start(), SpanKind.ANSWER))
            in_think = True
    spans.append((prose_end, SpanKind.THINK if in_think else SpanKind.ANSWER))
    if code_begin is not None:
        spans.append((len(text), SpanKind.CODE))
    return tuple(spans), in_think
