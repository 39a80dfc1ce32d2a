r"""The wording of a question: what is left of a text when everything is taken away that copies of it differ in.

Gone are case, blanks, punctuation, Unicode look-alikes, and LaTeX that sets sizes, spaces and fonts. Left are words,
numbers and the signs of arithmetic, so that "\dfrac{m}{n}" and "m/n" are one, and "7 + 8" and "7 - 8" are not.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

_DRAWING = re.compile(
    r"\[asy\].*?(?:\[/asy\]|\Z)|\\begin\s*\{(asy|tikzpicture)\}.*?(?:\\end\s*\{\1\}|\Z)|<svg\b.*?(?:</svg>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_SHORT_FRACTION = re.compile(r"\\[dtc]?frac\s*([a-z\d])\s*\{?([a-z\d])")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[a-z]+\*?\}")
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?|\\[^A-Za-z]")
_SECOND_ARGUMENT = re.compile(r"\}\s*\{")
_SILENT = re.compile(
    r"left|right|[bB]igg?[lrm]?|[dtc]?frac|(?:display|text)style|(?:no)?limits|q?quad|[hv]space|[hv]?phantom|"
    r"text(?:bf|it|rm|sf|tt|normal)?|math(?:bf|it|rm|sf|tt|bb|cal|frak|rel|op)|[mh]box|operatorname|boldsymbol|bm|emph|"
    r"hfill|noindent|par|hline|[lc]?dots[cbmio]?"
)
_MEANING = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=",
    "geq": ">=", "geqslant": ">=", "lt": "<", "gt": ">", "ne": " neq ", "neq": " neq ", "lvert": "|", "rvert": "|",
}  # fmt: skip
_SIGNS = str.maketrans({
    "\u2212": "-", "\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u00f7": "/", "\u2215": "/", "\u2044": "/",
    "\u2264": "<=", "\u2265": ">=", "\u2260": " neq ", "\u221a": " sqrt ", "\u00b0": " circ ", "\u2013": "--",
    "\u2014": "--", "\u2019": "'", "\u2018": "'", "\u2026": " ",
})  # fmt: skip
_SPELLED = {
    "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10",
    "eleven": "11", "twelve": "12", "dozen": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15",
    "sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19", "twenty": "20", "thirty": "30",
    "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
}  # fmt: skip
"""Not one and two, which mostly count nothing ("one of them")."""
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,|\\!)(?=\d{3}(?!\d))")
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=\w)|(?<=\w)-(?=[^\W\d_]{2})|--+")
_VALUE = re.compile(r"(?:- )?\d{1,300}(?:\.\d{1,300})?(?: / \d{1,300})?")
_TOKEN = re.compile(
    r"\d+(?:\.\d+)?|\.\d+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[^\W\d_]+(?:'[^\W\d_]+)?|[-+*/=<>]|(?<=[\d)])!"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """A text as words, its drawing code apart: what a figure looks like does not say what is asked about it."""

    words: tuple[str, ...]
    drawing: tuple[str, ...] = ()


def wording(text: str) -> Wording:
    """The wording of a text; drawing code is taken for the text where there is nothing else."""
    if "[asy]" in text or "tikzpicture" in text or "{asy}" in text or "<svg" in text:
        drawing = " ".join(match.group() for match in _DRAWING.finditer(text))
        words = _words(_DRAWING.sub(" ", text))
        return Wording(words, _words(drawing)) if words else Wording(_words(drawing))
    return Wording(_words(text))


def _words(text: str) -> tuple[str, ...]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    if "," in text or "\\" in text:
        text = _THOUSANDS.sub("", text)
    text = text.casefold()
    if "\\" in text:
        text = _SHORT_FRACTION.sub(r" \1 / \2 ", _ENVIRONMENT.sub(" ", text))
        text = _COMMAND.sub(_spoken, _SECOND_ARGUMENT.sub("}/{", text))
    if "-" in text:
        text = _HYPHEN.sub(" ", text)
    found: list[str] = _TOKEN.findall(text)
    words = [_SPELLED.get(word, word) for word in found]
    if "." in text:
        words = [canonical_number(word) if "." in word else word for word in words]
    return tuple(words)


def _spoken(command: re.Match[str]) -> str:
    name = command.group(1)
    if name is None or _SILENT.fullmatch(name):
        return " "
    return _MEANING.get(name) or f" {name} "


def canonical_number(digits: str) -> str:
    """A decimal number without needless zeros: "0.50" and ".5" become "0.5"."""
    whole, _, decimals = digits.partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole or '0'}.{decimals}" if decimals else whole or "0"


def numbers_of(words: tuple[str, ...]) -> set[str]:
    """The numbers among the words of a wording."""
    return {word for word in words if word[0].isdecimal()}


def answer_value(text: str) -> Fraction | None:
    r"""The rational number that an answer is: "1,250", "$18", "\frac{1}{2}", "-0.50"; None for all others."""
    written = _VALUE.fullmatch(" ".join(wording(text).words))
    if written is None:
        return None
    try:
        return Fraction(written.group().replace(" ", ""))
    except ZeroDivisionError:
        return None
