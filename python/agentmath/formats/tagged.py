"""Finding a call that stands between an opening and a closing tag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentmath.core.types import StopReason
from agentmath.formats.dialect import Found
from agentmath.formats.faults import Fault
from agentmath.formats.source import Program, compiles

_MOST_OPENINGS = 64
"""Opening tags before one closing tag that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The texts of one dialect, and how the program is taken from what stands between the first two."""

    opening: str
    closing: str
    output: str
    """What an output begins with."""
    take: Callable[[str], Program]

    def find(self, text: str) -> Found:
        """The first closing tag ends what counts; an output that begins outside of a program ends it sooner.

        The program lies between the closing tag and the earliest opening one whose content is a program, else the
        nearest: a tag that is only named in prose does not begin a program.
        """
        close = text.find(self.closing)
        before = text if close < 0 else text[:close]
        opened, invented = before.find(self.opening), before.find(self.output)
        if invented >= 0 and not 0 <= opened < invented:
            return Found(kept=invented, stop_reason=StopReason.INVENTED_OUTPUT, faults=(Fault.INVENTED_OUTPUT,))
        if close < 0:
            return Found(kept=len(text), begin=opened if opened >= 0 else None)
        kept = close + len(self.closing)
        if opened < 0:
            return Found(kept=kept, stop_reason=StopReason.FORMAT_ERROR, faults=(Fault.STRAY_TAG,))
        begin, program = self._program(before)
        return Found(kept=kept, begin=begin, program=program)

    def _program(self, before: str) -> tuple[int, Program]:
        starts: list[int] = []
        end = len(before)
        while len(starts) < _MOST_OPENINGS and (end := before.rfind(self.opening, 0, end)) >= 0:
            starts.insert(0, end)
        programs = [self.take(before[start + len(self.opening) :]) for start in starts]
        if len(starts) > 1:
            for start, program in zip(starts, programs, strict=True):
                if program.notice is None and compiles(program.source):
                    return start, program
        return starts[-1], programs[-1]
