"""Arithmetic that stands in data files: checked, valued and rewritten, never run as Python.

An expression is a Python syntax tree of numbers, + - * / // % ** and parentheses. Anything else is refused, so no text
of a file can do more than calculate, and no calculation can grow without bound.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

MAX_CHARS = 500
_MAX_BITS = 2048
_MAX_NODES = 200

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)\Z")


class Unconvertible(Exception):
    """The text is not arithmetic that can be turned into a program; says why."""


def parse_arithmetic(text: str) -> ast.expr:
    """Tree of an expression; "( 76.0 - 25.0 )" and "05" give whole numbers. Raises Unconvertible."""
    if len(text) > MAX_CHARS:
        raise Unconvertible(f"{len(text)} characters, at most {MAX_CHARS} are read")
    try:
        tree = ast.parse(_LEADING_ZEROS.sub("", text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise Unconvertible(f"{text!r} is not arithmetic") from fault
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        raise Unconvertible(f"{text[:40]!r}... has more than {_MAX_NODES} parts")
    return _checked(tree, text)


def _checked(tree: ast.expr, text: str) -> ast.expr:
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        return number_node(Fraction(str(tree.value)))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        operand = _checked(tree.operand, text)
        return ast.UnaryOp(ast.USub(), operand) if isinstance(tree.op, ast.USub) else operand
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
        return ast.BinOp(_checked(tree.left, text), tree.op, _checked(tree.right, text))
    raise Unconvertible(f"{text[:60]!r} holds more than numbers and + - * / // % **")


def number_node(value: Fraction) -> ast.expr:
    """A number as a program would write it: whole numbers without a point."""
    return ast.Constant(value.numerator if value.denominator == 1 else float(value))


def parse_number(text: str) -> Fraction:
    """A number as people write it: "$1,000", "20%" (a fifth), ".5", "1/2", "2 1/2", "-3". Raises Unconvertible."""
    bare = re.sub(r"[\s$\u20ac\u00a3,]+(?=[\d.])", " ", text.strip().replace("\u2212", "-")).strip()
    bare = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", bare)
    percent = bare.endswith("%")
    bare = bare.rstrip("%").strip()
    sign = -1 if bare.startswith("-") else 1
    bare = bare.lstrip("+-").strip()
    mixed = re.fullmatch(r"(?:(\d{1,9}) )?(\d{1,9})\s*/\s*(\d{1,9})", bare)
    if mixed and int(mixed[3]):
        value = int(mixed[1] or 0) + Fraction(int(mixed[2]), int(mixed[3]))
    elif len(bare) <= 100 and _NUMBER.match(bare):
        value = Fraction(bare)
    else:
        raise Unconvertible(f"{text[:40]!r} is not a number")
    return sign * value / (100 if percent else 1)


def exact_value(tree: ast.expr) -> Fraction:
    """Value of a checked tree. Raises Unconvertible when it is undefined or too large."""
    return Fraction(_evaluate(tree, {}, exact=True))


def program_value(tree: ast.expr, names: dict[str, int | float]) -> int | float:
    """What Python would compute for the tree, rounding errors included. Raises Unconvertible."""
    return _evaluate(tree, names, exact=False)


def _evaluate(tree: ast.expr, names: dict[str, Any], *, exact: bool) -> Any:
    if isinstance(tree, ast.Constant):
        assert isinstance(tree.value, int | float)
        return Fraction(str(tree.value)) if exact else tree.value
    if isinstance(tree, ast.Name):
        return names[tree.id]
    if isinstance(tree, ast.UnaryOp):
        return -_evaluate(tree.operand, names, exact=exact)
    assert isinstance(tree, ast.BinOp)
    left, right = (_evaluate(side, names, exact=exact) for side in (tree.left, tree.right))
    if isinstance(tree.op, ast.Pow) and (right != int(right) or abs(right) * _bits(left) > _MAX_BITS):
        raise Unconvertible("a power that is too large or not whole")
    try:
        value = _OPERATIONS[type(tree.op)](left, right)
    except ArithmeticError as fault:
        raise Unconvertible(f"cannot be computed: {fault}") from fault
    if _bits(value) > _MAX_BITS:
        raise Unconvertible("a number is too large")
    return value


def _bits(value: float | Fraction) -> int:
    if isinstance(value, float):
        return 64
    exact = Fraction(value)
    return max(exact.numerator.bit_length(), exact.denominator.bit_length())


def num_operations(tree: ast.expr) -> int:
    """How many binary operations a tree holds: the steps of the calculation."""
    return sum(isinstance(node, ast.BinOp) for node in ast.walk(tree))


def intermediate_results(tree: ast.expr) -> tuple[str, ...]:
    """Values of all operations in the order in which they are carried out, the final one last."""
    results: list[str] = []

    def visit(node: ast.expr) -> None:
        if isinstance(node, ast.UnaryOp):
            visit(node.operand)
        if isinstance(node, ast.BinOp):
            visit(node.left)
            visit(node.right)
            results.append(number_text(exact_value(node)))

    visit(tree)
    return tuple(results)


def number_text(value: Fraction) -> str:
    """Whole numbers without a point, decimals where they end, else a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return (
        str(float(value))
        if denominator == 1 and value.denominator < 10**9
        else f"{value.numerator}/{value.denominator}"
    )


def whole_divisions(tree: ast.expr, names: dict[str, int | float]) -> ast.expr:
    """The tree with // where whole numbers divide without rest, so that 48 / 2 prints as 24 and not as 24.0."""
    if isinstance(tree, ast.UnaryOp):
        return ast.UnaryOp(tree.op, whole_divisions(tree.operand, names))
    if not isinstance(tree, ast.BinOp):
        return tree
    left, right = whole_divisions(tree.left, names), whole_divisions(tree.right, names)
    op = tree.op
    if isinstance(op, ast.Div):
        values = program_value(left, names), program_value(right, names)
        if all(isinstance(v, int) for v in values) and values[1] != 0 and values[0] % values[1] == 0:
            op = ast.FloorDiv()
    return ast.BinOp(left, op, right)
