"""The library: math-verify's reader and sympy's arithmetic to 50 digits decide what plain numbers and letters cannot.

math-verify's own comparison is asked last. It rounds and chops at fixed places (1/2^99 equals 1/2^98, 0.0000001 equals
0.0000002), and calls two equations equal that have no real solution.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

from agentmath.config.grading import GradingSection
from agentmath.rewards.expressions import Expression
from agentmath.rewards.numbers import rounding_error

_DIGITS = 50
_MOST_DIGITS = 200
_AGREEMENT_DIGITS = 40
_NUM_POINTS = 4
_SIGNED_POINT = _NUM_POINTS - 1
"""Two points in 2..5, one in 0..1, and one below zero for expressions that have no branches there."""
_RANGES = ((200, 500), (200, 500), (5, 95), (-350, -150))
_FEWEST_POINTS = 2
"""Test points at which two expressions with symbols must be defined and agree."""


def same_value(gold: Expression, prediction: Expression, section: GradingSection) -> bool:
    """True when two expressions agree at every test point where both have a value.

    A decimal may differ by section.decimal_tolerance. Where there are too few such points the library is asked, and
    what it raises is raised.
    """
    sides = [_read(gold.latex), _read(prediction.latex)]
    has_symbols = gold.has_symbols or prediction.has_symbols
    is_loose = gold.has_decimal or prediction.has_decimal
    num_defined = 0
    for a, b in _values(sides, has_symbols=has_symbols):
        num_defined += 1
        if not (_agree(a, b) or (is_loose and _close(a, b, section.decimal_tolerance))):
            return section.accept_rounded_gold and _rounds(gold, prediction, b)
    if num_defined < (_FEWEST_POINTS if has_symbols else 1):
        return _verified(sides)
    return True


def is_multiple(gold: Expression, prediction: Expression, *, positive: bool) -> bool:
    """True when one is a constant (positive) multiple of the other: equations left - right = 0 that say the same."""
    if not (gold.has_symbols or prediction.has_symbols):
        return False
    pairs = _values([_read(gold.latex), _read(prediction.latex)], has_symbols=True)
    ratios = [a / b for a, b in pairs if a != 0 and b != 0]
    if len(ratios) < _FEWEST_POINTS or (positive and not all(_agree(r, abs(r)) for r in ratios)):
        return False
    return all(_agree(ratios[0], r) for r in ratios[1:])


@functools.lru_cache(maxsize=1024)
def _read(latex: str) -> Any:
    """Reading takes nearly all of a verdict's time, and the samples of a task share their gold answer."""
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

    names = ConversionConfig(lowercase_symbols=False)
    return latex2sympy(latex, is_real=True, normalization_config=None, conversion_config=names)


def _verified(sides: list[Any]) -> bool:
    from math_verify import verify

    return verify(sides[0], sides[1], timeout_seconds=None)


def _values(sides: list[Any], *, has_symbols: bool) -> Iterator[tuple[Any, Any]]:
    """Values of both sides at the test points where both have one."""
    symbols = sorted(set().union(*(s.free_symbols for s in sides)), key=str)
    for index in range(_NUM_POINTS if has_symbols else 1):
        if index == _SIGNED_POINT and any(map(_has_branches, sides)):
            continue
        at = {symbol: _coordinate(str(symbol), index) for symbol in symbols}
        values = [_value(side, at) for side in sides]
        if None not in values:
            yield values[0], values[1]


def _coordinate(name: str, index: int) -> Any:
    """A fixed fraction for every name, unlikely to be a root of anything."""
    from sympy import Rational

    low, high = _RANGES[index]
    return Rational(random.Random(f"{name}/{index}").randint(low * 1000, high * 1000) + 1, 100_003)


def _has_branches(side: Any) -> bool:
    """True where values below zero are a matter of convention: roots and logarithms of symbols."""
    from sympy import Pow, log

    roots = any(p.free_symbols and not p.exp.is_Integer for p in side.atoms(Pow))
    return roots or any(p.free_symbols for p in side.atoms(log))


def _value(side: Any, at: dict[Any, Any]) -> Any:
    """Complex value to _DIGITS digits, None where there is none. What cancels to nothing is zero."""
    from mpmath import mp, mpc

    found = side.evalf(_DIGITS, subs=at, maxn=_MOST_DIGITS)
    parts = found.as_real_imag()
    if not all(p.is_Float or p.is_Integer or p.is_Rational for p in parts):
        return None
    exact = [p if not p.is_Float or p._prec > _DIGITS else p * 0 for p in parts]
    with mp.workdps(_DIGITS + 10):
        return mpc(*(mp.mpf(p._mpf_) if p.is_Float else mp.mpf(p.p) / p.q for p in exact))


def _agree(a: Any, b: Any) -> bool:
    from mpmath import mp

    with mp.workdps(_DIGITS):
        return abs(a - b) <= mp.mpf(10) ** -_AGREEMENT_DIGITS * max(abs(a), abs(b))


def _close(a: Any, b: Any, tolerance: float) -> bool:
    """Equal to the relative tolerance; a whole number equals nothing but itself."""
    from mpmath import mp

    with mp.workdps(_DIGITS):
        if a.imag or b.imag or mp.isint(a.real) or mp.isint(b.real):
            return False
        return abs(a - b) <= mp.mpf(tolerance) * max(abs(a), abs(b))


def _rounds(gold: Expression, prediction: Expression, value: Any) -> bool:
    from mpmath import mp

    error = rounding_error(gold.plain) if gold.plain is not None else None
    if gold.plain is None or error is None or prediction.has_decimal or prediction.has_symbols:
        return False
    with mp.workdps(_DIGITS):
        middle = mp.mpf(gold.plain.value.numerator) / gold.plain.value.denominator
        return abs(value - middle) <= mp.mpf(error.numerator) / error.denominator
