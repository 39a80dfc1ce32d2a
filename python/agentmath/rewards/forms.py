r"""What kind of thing an answer is: number, words, list, tuple or interval, union, matrix, ratio, equation, relation.

"\{1 \pm \sqrt5, -2\}"        list of three numbers
"x \in (2,12) \cup (12,102)"  union of two tuples, as intervals are tuples with their brackets
"-793 < a < 10"               the tuple (-793, 10)
"k = \frac13"                 the number 1/3, named k
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from agentmath.rewards.clean import ROW_END, canonical, unwrap
from agentmath.rewards.expressions import MAX_CHARS, Expression, Unreadable, difference, read_expression, scaled
from agentmath.rewards.units import strip_unit

MAX_ITEMS = 64
_MAX_DEPTH = 6

Kind = Literal["number", "words", "list", "tuple", "union", "matrix", "ratio", "equation", "relation"]


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """An answer, taken apart."""

    kind: Kind
    text: str
    """Canonical text, for what is compared letter by letter."""
    items: tuple[Form, ...] = ()
    node: Expression | None = None
    """The expression of a number; left side minus right side of an equation or relation."""
    sign: str = ""
    """Brackets of a tuple, "<" or "<=" of a relation."""
    unit: str = ""
    name: str = ""
    """What stood before the equals sign: "x", "f(x)", "|AB|", "(p,q)"."""
    named_node: Expression | None = None
    """Name minus value, to compare y = 2x + 3 with equations; of the interval x < 1, x - 1."""


_MATRIX = re.compile(
    r"(?:[\[(]\s*)?\\begin\{(?P<env>[pb]?matrix|smallmatrix|array)\}(?:\s*\{[clr|\s]*\})?(?P<body>.*)"
    r"\\end\{(?P=env)\}(?:\s*[\])])?",
    re.DOTALL,
)
_AND = re.compile(r"\\text\s*\{\s*(?:,\s*)?(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_MEMBERSHIP = re.compile(r"\s*[A-Za-z]\s*\\in(?![A-Za-z])\s*(?P<set>.+)", re.DOTALL)
_BUILDER = re.compile(r"\s*[A-Za-z]\s*(?:\\in\s*(?:\\mathbb\s*\{?\s*R\s*\}?))?\s*[|:]\s*(?P<rule>.+)", re.DOTALL)
_GROUPED = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED = re.compile(r"[-+]?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_WRAPPED_NUMBER = re.compile(r"\\text\s*\{([^{}]*\d[^{}]*)\}")
"""\\text{3 apples}: the style of the whole answer says nothing."""
_MIRRORED = {"\\ge": "\\le", ">": "<"}
_RELATION = re.compile(r"\\le(?![A-Za-z])|\\ge(?![A-Za-z])|<|>")
_NAME = re.compile(r"(?!\d)(?:\\?[A-Za-z]|_(?:\{[A-Za-z0-9]+\}|[A-Za-z]|\d+)|['|(){},:/]|(?<=[A-Za-z]\()-?\d+(?=\)))+")
"""Every sign can be matched in one way only: no text makes it try combinations."""


def read(text: str, *, depth: int = 0) -> Form:
    """Take cleaned text apart; what is not understood is words."""
    text = unwrap(text)
    if depth > _MAX_DEPTH or len(text) > MAX_CHARS:
        return Form("words", canonical(text))
    text = _join_thousands(_AND.sub(",", text))
    for reader in (_read_matrix, _read_list, _read_set, _read_union, _read_relation, _read_equation, _read_tuple):
        form = reader(text, depth)
        if form is not None:
            return form
    return _read_ratio(text, depth) or _read_number(text)


def split(text: str, separators: str) -> list[str]:
    """Pieces between the separators that stand outside of all brackets; empty pieces are left out."""
    pieces: list[str] = []
    level = begin = 0
    for i, sign in enumerate(text):
        if sign in "([{":
            level += 1
        elif sign in ")]}":
            level -= 1
        elif level == 0 and sign in separators:
            pieces.append(text[begin:i])
            begin = i + 1
    return [p for p in (*pieces, text[begin:]) if p.strip()]


def _join_thousands(text: str) -> str:
    """Outside of brackets "12,345" is one number: commas that part list items have a blank behind them."""
    if _SPACED.fullmatch(text):
        return text.replace(" ", "")

    def joined(match: re.Match[str]) -> str:
        before = text[: match.start()]
        level = sum(before.count(sign) for sign in "([{") - sum(before.count(sign) for sign in ")]}")
        return match.group() if level else match.group().replace(",", "")

    return _GROUPED.sub(joined, text)


def _whole_bracket(text: str) -> bool:
    """True when the bracket that opens the text closes at its end."""
    if not text or text[0] not in "([" or text[-1] not in ")]":
        return False
    level = 0
    for i, sign in enumerate(text):
        level += (sign in "([{") - (sign in ")]}")
        if level == 0:
            return i == len(text) - 1
    return False


def _read_matrix(text: str, depth: int) -> Form | None:
    match = _MATRIX.fullmatch(text)
    if match is None:
        return None
    rows = [row.split("&") for row in match["body"].split(ROW_END) if row.strip()]
    cells = [read(cell, depth=depth + 1) for row in rows for cell in row]
    shape = "x".join(str(len(row)) for row in rows)
    return Form("matrix", f"{shape}:{canonical(match['body'])}", tuple(cells[: MAX_ITEMS + 1]), sign=shape)


def _members(pieces: list[str], depth: int) -> tuple[Form, ...]:
    """Forms of list members; plus-minus stands for two of them."""
    members: list[Form] = []
    for piece in pieces[: MAX_ITEMS + 1]:
        signed = [piece]
        if "\\pm" in piece or "\\mp" in piece:
            signed = [piece.replace("\\pm", a).replace("\\mp", b) for a, b in (("+", "-"), ("-", "+"))]
        members += [read(p, depth=depth + 1) for p in signed]
    return tuple(members)


def _read_list(text: str, depth: int) -> Form | None:
    pieces = split(text, ",;")
    if len(pieces) < 2 and not ("\\pm" in text or "\\mp" in text):
        return None
    if len(pieces) < 2 and (text.startswith("\\{") or _whole_bracket(text)):
        return None
    return Form("list", canonical(text), _members(pieces, depth))


def _read_set(text: str, depth: int) -> Form | None:
    if text.strip() == "\\emptyset":
        return Form("list", "")
    member = _MEMBERSHIP.fullmatch(text)
    if member:
        return read(member["set"], depth=depth + 1)
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = text[2:-2]
    elif _is_bare_set(text):
        inner = text[1:-1]
    else:
        return None
    builder = _BUILDER.fullmatch(inner)
    if builder and _RELATION.search(builder["rule"]):
        return read(builder["rule"], depth=depth + 1)
    return Form("list", canonical(inner), _members(split(inner, ",;"), depth))


def _is_bare_set(text: str) -> bool:
    """True for {4, 5, 6}, which somebody wrote without the backslashes."""
    return text.startswith("{") and text.endswith("}") and "{" not in text[1:] and "," in text


def _read_union(text: str, depth: int) -> Form | None:
    pieces = text.split("\\cup")
    if len(pieces) < 2:
        return None
    return Form("union", canonical(text), tuple(read(p, depth=depth + 1) for p in pieces[:MAX_ITEMS]))


def _read_relation(text: str, depth: int) -> Form | None:
    signs: list[str] = _RELATION.findall(text)
    if not signs or len(signs) > 2:
        return None
    sides = _RELATION.split(text)
    if signs[0] in ("\\ge", ">"):
        sides, signs = sides[::-1], [_MIRRORED.get(s, s) for s in signs[::-1]]
    if any(s in ("\\ge", ">") for s in signs):
        return None
    node = _difference(sides[0], sides[1]) if len(signs) == 1 else None
    interval = _interval(sides, signs, depth)
    if interval is not None:
        return replace(interval, named_node=node)
    return Form("relation", canonical(text), node=node, sign=signs[0]) if node else None


def _interval(sides: list[str], signs: list[str], depth: int) -> Form | None:
    """a < x < b, x < b and a < x as the tuple of its ends; signs are all < or <=."""
    is_variable = [re.fullmatch(r"\s*\\?[A-Za-z]+\s*", s) is not None and canonical(s) not in ("e", "i") for s in sides]
    if len(signs) == 2 and is_variable == [False, True, False]:
        ends, signs = [sides[0], sides[2]], signs
    elif len(signs) == 1 and is_variable == [True, False]:
        ends, signs = ["-\\infty", sides[1]], ["<", signs[0]]
    elif len(signs) == 1 and is_variable == [False, True]:
        ends, signs = [sides[0], "\\infty"], [signs[0], "<"]
    else:
        return None
    items = tuple(read(end, depth=depth + 1) for end in ends)
    if any(item.node is not None and item.node.has_symbols for item in items):
        return None
    brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
    return Form("tuple", f"{brackets[0]}{items[0].text},{items[1].text}{brackets[1]}", items, sign=brackets)


def _difference(left: str, right: str) -> Expression | None:
    try:
        return difference(read_expression(left), read_expression(right))
    except Unreadable:
        return None


def _read_equation(text: str, depth: int) -> Form | None:
    r"""A named value keeps its value, a chain of numbers its last one; anything else is an equation."""
    members = split(text, "=")
    if len(members) < 2 or "\\ne" in text:
        return None
    first, last = canonical(members[0]), members[-1]
    value = read(last, depth=depth + 1)
    if _NAME.fullmatch(first) and not _is_constant(first):
        return replace(value, name=first, named_node=_difference(members[0], last))
    if _is_constant(members[0]) and value.node is not None and not value.node.has_symbols:
        return value
    return Form("equation", canonical(text), node=_difference(members[0], last))


def _is_constant(text: str) -> bool:
    try:
        return not read_expression(text).has_symbols
    except Unreadable:
        return False


def _read_tuple(text: str, depth: int) -> Form | None:
    if not _whole_bracket(text):
        return None
    pieces = split(text[1:-1], ",;")
    if len(pieces) < 2:
        return None
    items = tuple(read(p, depth=depth + 1) for p in pieces[: MAX_ITEMS + 1])
    return Form("tuple", canonical(text), items, sign=text[0] + text[-1])


def _read_ratio(text: str, depth: int) -> Form | None:
    pieces = split(text, ":")
    if len(pieces) < 2 or ":" not in text:
        return None
    return Form("ratio", canonical(text), tuple(read(p, depth=depth + 1) for p in pieces[: MAX_ITEMS + 1]))


def _read_number(text: str) -> Form:
    wrapped = _WRAPPED_NUMBER.fullmatch(text)
    if wrapped:
        return _read_number(wrapped[1])
    stripped = strip_unit(text)
    bare = _join_thousands(unwrap(stripped.text))
    letters = canonical(bare)
    if re.fullmatch(r"[A-Za-z\s]{2,}|\\text\s*\{[^{}]*\}", bare) and letters not in ("pi", "\\pi"):
        letters = re.sub(r"\A\(([A-Za-z])\)\Z", r"\1", letters)
        return Form("words", letters)
    try:
        node = read_expression(bare)
    except Unreadable:
        return Form("words", canonical(text).removeprefix("+"))
    return Form("number", letters, node=scaled(node, Fraction(stripped.scale)), unit=stripped.unit)
