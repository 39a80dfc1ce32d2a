"""The value of an expression, at given values of its symbols."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from agentmath.rewards.nodes import Node
from agentmath.rewards.values import Arithmetic, Unevaluable, Value, exact, pi

Point = Callable[[str], Fraction]
"""The value of each symbol."""

NUM_POINTS = 4
"""Two in 2..5, one in 0..1, and one below zero for expressions that are defined there."""

_SIGNED_POINT = NUM_POINTS - 1
_RANGES = ((200, 500), (200, 500), (5, 95), (-350, -150))


def point(index: int) -> Point:
    """The index-th test point: a fixed fraction for every name, unlikely to be a root of anything."""

    def value(name: str) -> Fraction:
        low, high = _RANGES[index]
        return Fraction(random.Random(f"{name}/{index}").randint(low * 1000, high * 1000) + 1, 100_003)

    return value


def applies(node: Node, index: int) -> bool:
    """Whether a test point says something of the expression: roots and logarithms of negatives are conventions."""
    return index != _SIGNED_POINT or not _has_branches(node)


def _has_branches(node: Node) -> bool:
    if node.kind == "power" and node.symbols:
        base, exponent = node.args
        if exponent.symbols or (base.symbols and exponent.kind == "quotient"):
            return True
    if node.kind == "function" and node.value in ("ln", "log") and node.symbols:
        return True
    return any(_has_branches(a) for a in node.args)


def evaluate(node: Node, at: Point, arithmetic: Arithmetic) -> Value:
    """Value of the expression. Raises Unevaluable."""
    kind = node.kind
    if kind in ("integer", "decimal"):
        assert isinstance(node.value, Fraction)
        return arithmetic.checked(node.value, Fraction(0))
    if kind == "symbol":
        return exact(at(str(node.value)))
    if kind == "constant":
        return _constant(str(node.value), arithmetic)
    if kind == "power" and node.args[0] == _E:
        return arithmetic.exp(evaluate(node.args[1], at, arithmetic))
    args = [evaluate(a, at, arithmetic) for a in node.args]
    if kind == "function":
        return _function(str(node.value), args, arithmetic)
    return _OPERATIONS[kind](arithmetic, args)


def _sum(arithmetic: Arithmetic, args: list[Value]) -> Value:
    total = args[0]
    for value in args[1:]:
        total = arithmetic.add(total, value)
    return total


def _product(arithmetic: Arithmetic, args: list[Value]) -> Value:
    total = args[0]
    for value in args[1:]:
        total = arithmetic.multiply(total, value)
    return total


def _mixed(arithmetic: Arithmetic, args: list[Value]) -> Value:
    whole, part = args
    return arithmetic.add(whole, arithmetic.negative(part) if whole.re < 0 else part)


def _degrees(arithmetic: Arithmetic, args: list[Value]) -> Value:
    return arithmetic.multiply(args[0], arithmetic.multiply(pi(), exact(Fraction(1, 180))))


_OPERATIONS: dict[str, Callable[[Arithmetic, list[Value]], Value]] = {
    "sum": _sum,
    "product": _product,
    "mixed": _mixed,
    "quotient": lambda c, v: c.multiply(v[0], c.invert(v[1])),
    "power": lambda c, v: c.power(v[0], v[1]),
    "negative": lambda c, v: c.negative(v[0]),
    "factorial": lambda c, v: c.factorial(v[0]),
    "binomial": lambda c, v: c.binomial(v[0], v[1]),
    "absolute": lambda c, v: c.absolute(v[0]),
    "degrees": _degrees,
}
_E = Node("constant", value="e")


def _constant(name: str, arithmetic: Arithmetic) -> Value:
    if name == "i":
        return Value(Fraction(0), Fraction(1))
    return pi() if name == "pi" else arithmetic.exp(exact(1))


def _function(name: str, args: list[Value], arithmetic: Arithmetic) -> Value:
    if name in ("ln", "log"):
        base = args[1] if len(args) > 1 else exact(10)
        top = arithmetic.ln(args[0])
        return top if name == "ln" else arithmetic.multiply(top, arithmetic.invert(arithmetic.ln(base)))
    if name == "exp":
        return arithmetic.exp(args[0])
    angle, imaginary = arithmetic.decimals(args[0])
    if imaginary != 0:
        raise Unevaluable("a circular function of a complex number")
    cosine, sine = (Value(x, Decimal(0)) for x in arithmetic.circular(angle))
    if name in ("cos", "sec"):
        return cosine if name == "cos" else arithmetic.invert(cosine)
    if name in ("sin", "csc"):
        return sine if name == "sin" else arithmetic.invert(sine)
    over, under = (sine, cosine) if name == "tan" else (cosine, sine)
    return arithmetic.multiply(over, arithmetic.invert(under))
