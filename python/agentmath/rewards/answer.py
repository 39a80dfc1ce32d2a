r"""Whether an answer is right. Sound before complete: what cannot be shown to be equal is wrong.

Readings: integers and fractions are equal exactly; a decimal equals another value to 1e-6 of it; a percent sign, a
degree sign, a currency or a unit on one side only is ignored, different ones on both sides are not; order counts in
tuples and not in lists and sets; intervals equal relations that say the same; case of words is ignored; the last of
several boxes counts. Where the gold answer is a plain number, "76 - 25" is not yet an answer (accept_unevaluated
switches this off). Nothing is evaluated as Python, and every verdict is bounded in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer
from agentmath.rewards.clean import canonical, clean
from agentmath.rewards.compare import Comparison
from agentmath.rewards.extract import stated_answer
from agentmath.rewards.forms import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the grader found."""

    score: int
    """1 right, 0 wrong."""
    extracted: str | None
    """The answer as it stood in the text; None when there was none."""
    rule: str
    """What decided, e.g. "identical", "number", "list", "no-answer"; for counts in logs."""
    reason: str
    """One sentence for people."""


def grade(gold: str, text: str, *, box_only: bool = True, accept_unevaluated: bool = False) -> Verdict:
    """Grade model text without tool output. Never raises.

    With box_only=False an answer that was stated without any box counts too.
    """
    extracted = boxed_answer(text) if box_only else stated_answer(text)
    if extracted is None:
        return Verdict(score=0, extracted=None, rule="no-answer", reason="no complete, non-empty box in the text")
    verdict = grade_answer(gold, extracted, accept_unevaluated=accept_unevaluated)
    return Verdict(score=verdict.score, extracted=extracted, rule=verdict.rule, reason=verdict.reason)


def grade_answer(gold: str, prediction: str, *, accept_unevaluated: bool = False) -> Verdict:
    """Grade a bare answer. Never raises."""
    if not gold.strip():
        return _verdict(False, prediction, "no-gold", "the task has no gold answer, so nothing can be right")
    if max(len(gold), len(prediction)) > MAX_ANSWER_CHARS:
        return _verdict(
            False, prediction, "too-long", f"answers longer than {MAX_ANSWER_CHARS} characters are not read"
        )
    sides = [clean(boxed_answer(side) or side) for side in (gold, prediction)]
    letters = [canonical(side) for side in sides]
    if not letters[1]:
        return _verdict(False, prediction, "no-answer", "the answer is empty")
    if letters[0] == letters[1]:
        return _verdict(True, prediction, "identical", "the same letters")
    if all(len(side) <= _QUICK_DIGITS and side.isascii() and side.isdigit() for side in letters):
        return _verdict(int(letters[0]) == int(letters[1]), prediction, "integer", "compared as whole numbers")
    forms = [read(side) for side in sides]
    comparison = Comparison(accept_unevaluated=accept_unevaluated)
    equal = comparison.equal(forms[0], forms[1])
    return _verdict(equal, prediction, comparison.rule, comparison.reason)


_QUICK_DIGITS = 1000


def _verdict(equal: bool, prediction: str, rule: str, reason: str) -> Verdict:
    return Verdict(score=int(equal), extracted=prediction, rule=rule, reason=reason)
