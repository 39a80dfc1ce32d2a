r"""Where the final answer stands in model text: the last \boxed{} or \fbox{}.

Every pass over the text is linear, however often a box is opened and never closed.
"""

from __future__ import annotations

import re

MAX_ANSWER_CHARS = 10_000
"""A longer box is not an answer."""

_BOX = re.compile(r"\\f?box(?:ed)?(?![A-Za-z])")
_BARE = re.compile(r"\s*([^\s{}$]+)")
_BEFORE_ANSWER = (
    re.compile(r"####"),
    re.compile(r"\banswer\b[ \t]*(?:is\b|[:=])[ \t]*:?", re.IGNORECASE),
)
_NUMBER = re.compile(r"[-+]?[$\u20ac\u00a3]?\d[\d,]*(?:\.\d+)?%?")


def boxed_answer(text: str) -> str | None:
    r"""Content of the last box, None when there is none, it is empty, or it was cut off.

    Braces may nest, \{ and \} do not count, and "\boxed 7" is a box of one word. A cut box hides an earlier one: what
    stands in it was meant to replace that one, and "\boxed{42" may be the beginning of 421.
    """
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    match = _BOX.match(text, start) if start >= 0 else None
    if match is None:
        return None
    position = match.end()
    while position < len(text) and text[position].isspace():
        position += 1
    if position < len(text) and text[position] == "{":
        content = _braced(text, position)
    else:
        bare = _BARE.match(text, position)
        content = bare.group(1).rstrip(".,;") if bare else None
    if content is None or len(content) > MAX_ANSWER_CHARS:
        return None
    return content.strip() or None


def _braced(text: str, opening: int) -> str | None:
    """Text between the brace at `opening` and the one that closes it, None when nothing closes it."""
    depth = 0
    position = opening
    while position < len(text):
        sign = text[position]
        if sign == "\\":
            position += 2
            continue
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return text[opening + 1 : position]
        position += 1
    return None


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
