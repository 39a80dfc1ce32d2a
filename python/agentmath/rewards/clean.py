r"""One spelling for what can be written in many ways: signs, spacing, styles. What it means is no matter here."""

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
        "\u2205": "\\emptyset ",
        "\u222a": "\\cup ",
        "\u2208": "\\in ",
        "\u2264": "\\le ",
        "\u2265": "\\ge ",
        "\u00b1": "\\pm ",
        "\u00b0": "^\\circ ",
        "\u2032": "'",
        "\u2026": "\\ldots ",
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
        (r"\\(?:varnothing|empty)(?![A-Za-z])", r"\\emptyset"),
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
_REWRITTEN = re.compile(r"[\\<>~/]|\{,\}|\.\.\.")
"""Text without any of these is left alone by all patterns: most answers are."""
_MAX_WRAPPINGS = 4
_WRAPPINGS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"), ("**", "**"), ("`", "`"))
_INDICES = re.compile("([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)|([\u2080-\u2089]+)")
_FRACTIONS = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
"""Signs that would else run together with the digits before them: a square, an index, the half of two and a half."""
_TRAILING = " \t\r\n.,;"
_BLANK = re.compile(r" (?![0-9])|(?<![0-9]) ")
"""Not the one between two digits: 1 2 is not twelve."""
_LONE_BRACES = re.compile(r"\{([A-Za-z0-9])\}")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")


def clean(text: str) -> str:
    """The answer in one spelling, blanks still in it; linear in its length."""
    if not text.isascii():
        text = _INDICES.sub(lambda m: f"{'_' if m[2] else '^'}{{{m[0]}}}", text)
        text = _FRACTIONS.sub(r" \g<0>", text.translate(_SIGNS))
        text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    # Long runs of blanks would make the patterns below take quadratic time.
    text = " ".join(text.replace("\\\\", ROW_END).split())
    if _REWRITTEN.search(text):
        for pattern, replacement in _REWRITES:
            text = pattern.sub(replacement, text)
    return unwrap(" ".join(text.split()))


def unwrap(text: str) -> str:
    r"""Without the marks round it: blanks, full stops at the end, $...$, \(...\), \[...\]."""
    for _ in range(_MAX_WRAPPINGS):
        before = text
        text = text.strip().rstrip(_TRAILING)
        for opening, closing in _WRAPPINGS:
            if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing):
                text = text[len(opening) : -len(closing)]
                break
        if text == before:
            break
    return text


def canonical(text: str) -> str:
    """What is compared letter by letter: cleaned text without text wrappers, braces round one sign, and most blanks."""
    text = " ".join(_LONE_BRACES.sub(r"\1", _TEXT.sub(r"\1", text)).split())
    return _BLANK.sub("", text).rstrip(".,;")
