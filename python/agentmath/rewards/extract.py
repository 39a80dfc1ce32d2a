"""Where the answer stands in text that does not follow the protocol."""

from __future__ import annotations

import re

from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer

_BEFORE_ANSWER = (
    re.compile(r"####"),
    re.compile(r"\banswer\b[ \t]*(?:is\b|[:=])[ \t]*:?", re.IGNORECASE),
)
_NUMBER = re.compile(r"[-+]?[$\u20ac\u00a3]?\d[\d,]*(?:\.\d+)?%?")


def stated_answer(text: str) -> str | None:
    r"""The last box; only where no box was ever opened, the last "#### x", "answer: x" or "answer is x", or number.

    For text that does not follow the protocol, such as other people's completions. Training reads boxes alone.
    """
    if "\\boxed" in text or "\\fbox" in text:
        return boxed_answer(text)
    for pattern in _BEFORE_ANSWER:
        ends = [m.end() for m in pattern.finditer(text)]
        if ends:
            return text[ends[-1] : ends[-1] + MAX_ANSWER_CHARS].partition("\n")[0].strip() or None
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers and len(numbers[-1]) <= MAX_ANSWER_CHARS else None
