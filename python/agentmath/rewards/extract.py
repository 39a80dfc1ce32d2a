"""Where the answer stands in a text."""

from __future__ import annotations

import re
from typing import Literal

from agentmath.config.grading import GradingSection
from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer

Form = Literal["box", "text", "answer"]
"""What a prediction is: model text with a box, other people's text, or the answer itself."""

_MOST_BOXES = 32
_BEFORE_ANSWER = (
    re.compile(r"####"),
    re.compile(r"\banswer\b[ \t]*(?:is\b|[:=])[ \t]*:?", re.IGNORECASE),
)
_NUMBER = re.compile(r"[-+]?[$\u20ac\u00a3]?\d[\d,]*(?:\.\d+)?%?")
_JOINT = re.compile(r"\s*\}[\s$]*(?:,|,?\s*(?:and|or|\\text\{\s*(?:and|or)\s*\}))[\s$]*")


def extract(text: str, form: Form, section: GradingSection) -> str | None:
    """The answer as it stands in the text, None when there is none; linear in its length."""
    if form == "answer":
        return text
    if section.ignore_think:
        text = without_think(text)
    if form == "text" and "\\boxed" not in text and "\\fbox" not in text:
        return stated_answer(text)
    return joined_boxes(text) if section.join_boxes else boxed_answer(text)


def without_think(text: str) -> str:
    """Text without closed think sections; what stands before a closing tag that nothing opened was thought too."""
    *thoughts, rest = text.split("</think>")
    return "\n".join([*(t.partition("<think>")[0] for t in thoughts if "<think>" in t), rest])


def joined_boxes(text: str) -> str | None:
    """The last box; with the boxes before it that only a comma, "and" or "or" parts from it, as one list."""
    answers: list[str] = []
    while (answer := boxed_answer(text)) is not None and len(answers) < _MOST_BOXES:
        answers.append(answer)
        start = text.rfind("\\boxed")
        before = text.rfind("\\boxed{", 0, max(start, 0))
        inner = boxed_answer(text[before:start]) if before >= 0 else None
        if inner is None:
            break
        content = text.find(inner, before + len("\\boxed{"))
        if _JOINT.fullmatch(text, content + len(inner), start) is None:
            break
        text = text[:start]
    return ", ".join(reversed(answers)) if answers else None


def stated_answer(text: str) -> str | None:
    """The last "#### x", "answer: x" or "answer is x", else the last number of a text without any box."""
    for pattern in _BEFORE_ANSWER:
        ends = [m.end() for m in pattern.finditer(text)]
        if ends:
            return text[ends[-1] : ends[-1] + MAX_ANSWER_CHARS].partition("\n")[0].strip() or None
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers and len(numbers[-1]) <= MAX_ANSWER_CHARS else None
