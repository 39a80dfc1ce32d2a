r"""Whether an answer is right. Sound before complete: what cannot be shown to be equal is wrong.

Readings: integers and fractions are equal exactly; a decimal equals another value to 1e-6 of it; a percent sign, a
degree sign, a currency or a unit on one side only is ignored, different ones on both sides are not; order counts in
tuples and not in lists and sets; intervals equal relations that say the same; case of words is ignored. What people
disagree on is a setting of GradingSection. Nothing is evaluated as Python.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentmath.config.grading import GradingSection
from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer
from agentmath.rewards.clean import canonical, clean
from agentmath.rewards.compare import Comparison, NeedsLibrary
from agentmath.rewards.extract import Form, extract
from agentmath.rewards.forms import read
from agentmath.rewards.numbers import join_decimal_comma, plain_number, same_number

MAX_FORMULA_CHARS = 4000
"""Longest text that the library is asked about."""

_DEFAULTS = GradingSection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the grader found."""

    match: bool | None
    """True right, False wrong; None when the grader failed: no fault of the answer, and never a 0."""
    extracted: str | None
    """The answer as it stood in the text; None when there was none."""
    rule: str
    """What decided, e.g. "identical", "number", "list", "no-answer", "error"; for counts in logs."""
    reason: str
    """One sentence for people."""

    @property
    def error(self) -> str | None:
        """Why there is no verdict."""
        return self.reason if self.match is None else None


def grade(gold: str, text: str, section: GradingSection = _DEFAULTS, *, form: Form = "box") -> Verdict:
    """Grade model text without tool output. Never raises; takes as long as the library takes.

    form "box": a box must hold the answer; "text": it may be stated otherwise; "answer": the text is the answer.
    """
    extracted = extract(text, form, section)
    if extracted is None:
        return no_answer()
    return grade_answer(gold, extracted, section)


def grade_answer(gold: str, prediction: str, section: GradingSection = _DEFAULTS) -> Verdict:
    """Grade a bare answer. Never raises; takes as long as the library takes: Grader bounds it."""
    quick = quick_verdict(gold, prediction, section)
    if quick is not None:
        return quick
    try:
        return _compared(gold, prediction, section, with_library=True)
    # The library raises whatever it likes; a defect of its or ours is a counted outcome.
    except Exception as fault:
        words = str(fault).partition("\n")[0][:200]
        return failed(prediction, f"the grader failed: {type(fault).__name__}: {words}")


def quick_verdict(gold: str, prediction: str, section: GradingSection = _DEFAULTS) -> Verdict | None:
    """The verdict where letters and plain numbers decide, in linear time; None where the library is needed."""
    if not gold.strip():
        return _verdict(False, prediction, "no-gold", "the task has no gold answer, so nothing can be right")
    if max(len(gold), len(prediction)) > MAX_ANSWER_CHARS:
        reason = f"answers longer than {MAX_ANSWER_CHARS} characters are not read"
        return _verdict(False, prediction, "too-long", reason)
    plain = plain_number(gold.strip()), plain_number(prediction.strip())
    if plain[0] is not None and plain[1] is not None:
        return _verdict(same_number(plain[0], plain[1], section), prediction, "number", "compared as plain numbers")
    try:
        return _compared(gold, prediction, section, with_library=False)
    except NeedsLibrary:
        if max(len(gold), len(prediction)) <= MAX_FORMULA_CHARS:
            return None
        reason = f"formulas longer than {MAX_FORMULA_CHARS} characters are not compared"
        return _verdict(False, prediction, "too-long", reason)


def no_answer() -> Verdict:
    """The verdict on a text without an answer."""
    return Verdict(match=False, extracted=None, rule="no-answer", reason="no complete, non-empty answer in the text")


def failed(prediction: str | None, error: str) -> Verdict:
    """The verdict when the grader failed."""
    return Verdict(match=None, extracted=prediction, rule="error", reason=error)


def _compared(gold: str, prediction: str, section: GradingSection, *, with_library: bool) -> Verdict:
    sides = [clean(boxed_answer(side) or side) for side in (gold, prediction)]
    if section.read_decimal_comma:
        sides = [join_decimal_comma(side) for side in sides]
    letters = [canonical(side) for side in sides]
    if not letters[1]:
        return _verdict(False, prediction, "no-answer", "the answer is empty")
    if letters[0] == letters[1]:
        return _verdict(True, prediction, "identical", "the same letters")
    comparison = Comparison(section, with_library=with_library)
    equal = comparison.equal(read(sides[0]), read(sides[1]))
    return _verdict(equal, prediction, comparison.rule, comparison.reason)


def _verdict(match: bool, prediction: str, rule: str, reason: str) -> Verdict:
    return Verdict(match=match, extracted=prediction, rule=rule, reason=reason)
