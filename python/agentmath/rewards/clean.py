r"""One spelling for what can be written in many ways: signs, spacing, styles. Nothing here knows what an answer means."""

from __future__ import annotations

import re
import unicodedata

ROW_END = "\ue000"
"""Stands for the double backslash that ends a matrix row, which would else read as an escape."""

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013\u2014\u2010\u2011\ufe63\uff0d", "-"),
        **dict.fromkeys("\u00d7\u00b7\u22c5\u2217\u2219", "*"),
        **dict.fromkeys("\u00f7\u2044\u2215", "/"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
        "\u221a": "\\sqrt ",
        "\u03c0": "\\pi ",
        "\u221e": "\\infty ",
        "\u222a": "\\cup ",
        "\u2208": "\\in ",
        "\u2264": "\\le ",
        "\u2265": "\\ge ",
        "\u00b1": "\\pm ",
        "\u00b0": "^\\circ ",
        "\u2032": "'",
        "\u2026": "\\ldots ",
        "\u00b2": "^2",
        "\u00b3": "^3",
        "\u00bd": " 1/2",
        "\u00bc": " 1/4",
        "\u00be": " 3/4",
        "\u2153": " 1/3",
        "\u2154": " 2/3",
    }
)

_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"<\|[^<>|]{1,40}\|>", ""),
        (r"(?<=\d)(?:\{,\}|,\\!\s*|\\,|\\ )(?=\d{3}(?!\d))", ""),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*\.?(?=[\s()\[\]{}|\\.]|$)", ""),
        (r"\\(?:displaystyle|textstyle|scriptstyle|limits|rm|it|bf)(?![A-Za-z])", " "),
        (r"\\(?:q?quad|,|;|:|!|\s)|~", " "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:mbox|textnormal|textrm|textbf|textit|mathrm|mathbf|mathit|operatorname|hbox)(?![A-Za-z])", r"\\text"),
        (r"\\text\s*\{\s*([ei])\s*\}", r" \1 "),
        (r"\\leq?(?:slant)?(?![A-Za-z])|<=", r"\\le "),
        (r"\\geq?(?:slant)?(?![A-Za-z])|>=", r"\\ge "),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\(?:cdot|times|ast)(?![A-Za-z])", "*"),
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\mid(?![A-Za-z])|\\vert(?![A-Za-z])", "|"),
        (r"\\colon(?![A-Za-z])", ":"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\(?:cdots|dots|dotsc)(?![A-Za-z])|\.\.\.", r"\\ldots "),
        (r"\^\s*\{\s*\\circ\s*\}|\\degree(?![A-Za-z])", r"^\\circ "),
        (r"\\%", "%"),
        (r"(?<![\d./^_}\\])(\d{1,9})\s+(\d{1,9})\s*/\s*(\d{1,9})(?![\d.])", r"\1\\frac{\2}{\3}"),
    )
)
_MAX_WRAPPINGS = 4
_TRAILING = re.compile(r"[\s.,;]+\Z")
_LONE_BRACES = re.compile(r"\{([A-Za-z0-9])\}")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")


def clean(text: str) -> str:
    """The answer in one spelling, blanks still in it; linear in its length."""
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    text = text.replace("\\\\", ROW_END)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return unwrap(text)


def unwrap(text: str) -> str:
    r"""Without the marks round it: blanks, full stops at the end, $...$, \(...\), \[...\]."""
    for _ in range(_MAX_WRAPPINGS):
        before = text
        text = text.strip()
        text = _TRAILING.sub("", text)
        if text.startswith("\\(") and text.endswith("\\)") or text.startswith("\\[") and text.endswith("\\]"):
            text = text[2:-2]
        elif text.startswith("$$") and text.endswith("$$") and len(text) >= 4:
            text = text[2:-2]
        elif text.startswith("$") and text.endswith("$") and len(text) >= 2 and not text.endswith("\\$"):
            text = text[1:-1]
        elif text.startswith("**") and text.endswith("**") and len(text) > 4:
            text = text[2:-2]
        if text == before:
            break
    return text


def canonical(text: str) -> str:
    """Cleaned text without blanks, text wrappers and braces round single signs: what is compared letter by letter."""
    text = _LONE_BRACES.sub(r"\1", _TEXT.sub(r"\1", text))
    return re.sub(r"\s+", "", text).rstrip(".,;")
