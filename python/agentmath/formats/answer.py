r"""Where the final answer stands in model text: the last \boxed{} or \fbox{}.

Every pass over the text is linear, however often a box is opened and never closed.
"""

from __future__ import annotations

import re

MAX_ANSWER_CHARS = 10_000
"""A longer box is not an answer."""

_BOX = re.compile(r"\\f?box(?:ed)?(?![A-Za-z])")
_BARE = re.compile(r"\s*([^\s{}$]+)")


def boxed_answer(text: str) -> str | None:
    r"""Content of the last box, None when there is none, it is empty, or it was cut off.

    Braces may nest, \{ and \} do not count, and "\boxed 7" is a box of one word. A cut box hides an earlier one: what
    stands in it was meant to replace that one, and "\boxed{42" may be the beginning of 421.
    """
    position = _last_box(text)
    if position is None:
        return None
    if text[position : position + 1] == "{":
        content = _braced(text, position)
    else:
        bare = _BARE.match(text, position)
        content = bare.group(1).rstrip(".,;") if bare else None
    if content is None or len(content) > MAX_ANSWER_CHARS:
        return None
    return content.strip() or None


def has_cut_box(text: str) -> bool:
    """Whether the last box is opened and never closed."""
    position = _last_box(text)
    return position is not None and text[position : position + 1] == "{" and _braced(text, position) is None


def _last_box(text: str) -> int | None:
    """Where the content of the last box begins, with its brace if it has one; None without a box."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    match = _BOX.match(text, start) if start >= 0 else None
    if match is None:
        return None
    position = match.end()
    while position < len(text) and text[position].isspace():
        position += 1
    return position


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
