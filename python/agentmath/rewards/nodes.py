"""The tree of an expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

MAX_HEIGHT = 100
"""Operations inside each other, however they were written."""


class Unreadable(Exception):
    """The text is not an expression of the kind that is understood."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of an expression."""

    kind: str
    """integer, decimal, symbol, constant, sum, mixed, product, quotient, power, negative, function, factorial,
    absolute, degrees or binomial."""
    args: tuple[Node, ...] = ()
    value: Fraction | str = ""
    """The number, or the name of the symbol, constant or function."""
    height: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        height = 1 + max((a.height for a in self.args), default=0)
        if height > MAX_HEIGHT:
            raise Unreadable(f"more than {MAX_HEIGHT} operations inside each other")
        object.__setattr__(self, "height", height)

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the free symbols."""
        if self.kind == "symbol":
            return frozenset({str(self.value)})
        return frozenset().union(*(a.symbols for a in self.args))

    @property
    def has_decimal(self) -> bool:
        """True when a number was written with a decimal point."""
        return self.kind == "decimal" or any(a.has_decimal for a in self.args)

    @property
    def is_literal(self) -> bool:
        """True for a number with no work left in it: 7, -2.5, 3/4, a mixed number, 1.2 * 10^-4."""
        kinds = [a.kind for a in self.args]
        if self.kind in ("integer", "decimal", "mixed"):
            return True
        if self.kind == "negative":
            return self.args[0].is_literal
        if self.kind == "quotient":
            return all(a.is_literal and a.kind in ("integer", "negative") for a in self.args)
        if self.kind == "product":
            return len(kinds) == 2 and kinds[0] in ("integer", "decimal") and _is_power_of_ten(self.args[1])
        return _is_power_of_ten(self)


def _is_power_of_ten(node: Node) -> bool:
    if node.kind != "power" or node.args[0].value != 10:
        return False
    exponent = node.args[1].args[0] if node.args[1].kind == "negative" else node.args[1]
    return exponent.kind == "integer"


def is_mixed(whole: Node, part: Node) -> bool:
    """True for a whole number and a proper fraction right behind it: 2\\frac{1}{2} is two and a half."""
    if whole.kind == "negative":
        whole = whole.args[0]
    if whole.kind != "integer" or part.kind != "quotient" or any(a.kind != "integer" for a in part.args):
        return False
    numerator, denominator = (a.value for a in part.args)
    assert isinstance(numerator, Fraction) and isinstance(denominator, Fraction)
    return 0 < numerator < denominator
