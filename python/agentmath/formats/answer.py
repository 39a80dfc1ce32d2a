r"""Where the final answer stands: the last non-empty \boxed{} of model text."""

from __future__ import annotations

import re

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def last_box(text: str) -> str | None:
    r"""Content of the last complete, non-empty \boxed{...} or \fbox{...}; braces may nest. None when there is none."""
    for match in reversed(list(_BOX.finditer(text))):
        depth = 1
        for position in range(match.end(), len(text)):
            sign = text[position]
            if text[position - 1] == "\\" and sign in "{}":
                continue
            depth += (sign == "{") - (sign == "}")
            if depth == 0:
                content = text[match.end() : position].strip()
                if content:
                    return content
                break
    return None
