"""Bounded arithmetic: exact complex rationals while possible, else complex numbers of 60 decimal digits.

Every operation is paid for from one budget and no number grows past MAX_BITS, so that a verdict is quick whatever the
text asks for: 9^9^9 is refused before anything is computed.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

MAX_BITS = 1 << 15
"""Size of numerators and denominators."""
MAX_WORK = 30_000
"""Budget of one verdict; one unit is about a microsecond."""

_PRECISION = 60
_AGREEMENT = Decimal("1e-45")
_LARGEST_ANGLE = 10**6
_MOST_FACTORS = 3000
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651"
)


class Unevaluable(Exception):
    """The value is undefined, too large, or of a kind that is not computed."""


@dataclass(frozen=True, slots=True)
class Value:
    """A complex number whose parts are both exact or both of 60 digits."""

    re: Fraction | Decimal
    im: Fraction | Decimal

    @property
    def exact(self) -> tuple[Fraction, Fraction] | None:
        """Both parts, when they are rational."""
        if isinstance(self.re, Fraction) and isinstance(self.im, Fraction):
            return self.re, self.im
        return None

    @property
    def rational(self) -> Fraction | None:
        """The number itself, when it is real and rational."""
        return self.re if isinstance(self.re, Fraction) and self.im == 0 else None


def exact(number: Fraction | int) -> Value:
    """A rational number."""
    return Value(Fraction(number), Fraction(0))


class Arithmetic:
    """Operations on values, with one budget for all of them. Raises Unevaluable."""

    def __init__(self) -> None:
        self.work = 0
        traps = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
        self.context = decimal.Context(prec=_PRECISION, Emax=999_999, Emin=-999_999, traps=traps)

    def spend(self, units: int) -> None:
        self.work += units
        if self.work > MAX_WORK:
            raise Unevaluable("too much work")

    def checked(self, re: Fraction, im: Fraction) -> Value:
        bits = max(n.bit_length() for f in (re, im) for n in (f.numerator, f.denominator))
        if bits > MAX_BITS:
            raise Unevaluable("a number is too large")
        self.spend(4 + (bits * bits >> 18))
        return Value(re, im)

    def decimals(self, value: Value) -> tuple[Decimal, Decimal]:
        """Both parts in 60 digits."""
        parts: list[Decimal] = []
        for part in (value.re, value.im):
            if isinstance(part, Fraction):
                self.spend(4 + (max(part.numerator.bit_length(), part.denominator.bit_length()) >> 4))
                part = self.context.divide(Decimal(part.numerator), Decimal(part.denominator))
            parts.append(part)
        return parts[0], parts[1]

    def add(self, a: Value, b: Value) -> Value:
        if (x := a.exact) and (y := b.exact):
            return self.checked(x[0] + y[0], x[1] + y[1])
        self.spend(10)
        p, q = self.decimals(a), self.decimals(b)
        return Value(self.context.add(p[0], q[0]), self.context.add(p[1], q[1]))

    def negative(self, a: Value) -> Value:
        return Value(_negated(a.re), _negated(a.im))

    def multiply(self, a: Value, b: Value) -> Value:
        if (x := a.exact) and (y := b.exact):
            return self.checked(x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])
        self.spend(20)
        c = self.context
        (ar, ai), (br, bi) = self.decimals(a), self.decimals(b)
        return Value(c.subtract(c.multiply(ar, br), c.multiply(ai, bi)), c.add(c.multiply(ar, bi), c.multiply(ai, br)))

    def invert(self, a: Value) -> Value:
        if x := a.exact:
            square = x[0] * x[0] + x[1] * x[1]
            if square == 0:
                raise Unevaluable("division by zero")
            return self.checked(x[0] / square, -x[1] / square)
        self.spend(20)
        c = self.context
        re, im = self.decimals(a)
        square = c.add(c.multiply(re, re), c.multiply(im, im))
        if square == 0:
            raise Unevaluable("division by zero")
        return Value(c.divide(re, square), c.divide(im.copy_negate(), square))

    def power(self, base: Value, exponent: Value) -> Value:
        """base^exponent; roots of negative numbers are real where the root is odd, imaginary where it is square."""
        fraction = exponent.rational
        if fraction is not None and fraction.denominator == 1:
            return self.whole_power(base, fraction.numerator)
        if base.im != 0 or exponent.im != 0:
            raise Unevaluable("a complex power")
        if base.re == 0:
            raise Unevaluable("a power of zero")
        if base.re < 0:
            return self.power_of_negative(base, fraction)
        if fraction is not None and base.rational is not None:
            root = self.exact_root(base.rational, fraction.denominator)
            if root is not None:
                return self.whole_power(exact(root), fraction.numerator)
        self.spend(100)
        x, y = self.decimals(base)[0], self.decimals(exponent)[0]
        return Value(self.context.exp(self.context.multiply(self.context.ln(x), y)), Decimal(0))

    def power_of_negative(self, base: Value, fraction: Fraction | None) -> Value:
        if fraction is None or (fraction.denominator % 2 == 0 and fraction.denominator != 2):
            raise Unevaluable("a power of a negative number")
        root = self.power(self.negative(base), exact(Fraction(1, fraction.denominator)))
        if fraction.denominator == 2:
            return self.whole_power(self.multiply(root, Value(Fraction(0), Fraction(1))), fraction.numerator)
        return self.whole_power(self.negative(root), fraction.numerator)

    def whole_power(self, base: Value, exponent: int) -> Value:
        if exponent < 0:
            return self.invert(self.whole_power(base, -exponent))
        if base.exact and base.re == 0 and base.im == 0 and exponent == 0:
            raise Unevaluable("0^0")
        if x := base.exact:
            bits = max(n.bit_length() for f in x for n in (abs(f.numerator) - 1 if f else 0, f.denominator - 1))
            if bits * exponent > MAX_BITS or exponent.bit_length() > 64:
                raise Unevaluable("a power is too large")
        elif exponent > 10_000:
            raise Unevaluable("a power is too large")
        result = exact(1)
        while exponent:
            if exponent & 1:
                result = self.multiply(result, base)
            exponent >>= 1
            if exponent:
                base = self.multiply(base, base)
        return result

    def exact_root(self, number: Fraction, degree: int) -> Fraction | None:
        """The root of a positive number, when it is rational."""
        if degree > 64 or max(number.numerator.bit_length(), number.denominator.bit_length()) > 2048:
            return None
        self.spend(200)
        parts = [_whole_root(n, degree) for n in (number.numerator, number.denominator)]
        if parts[0] ** degree != number.numerator or parts[1] ** degree != number.denominator:
            return None
        return Fraction(parts[0], parts[1])

    def exp(self, a: Value) -> Value:
        re, im = self.decimals(a)
        self.spend(100)
        size = self.context.exp(re)
        cosine, sine = self.circular(im)
        return Value(self.context.multiply(size, cosine), self.context.multiply(size, sine))

    def ln(self, a: Value) -> Value:
        re, im = self.decimals(a)
        if im != 0 or re <= 0:
            raise Unevaluable("the logarithm of what is not positive")
        self.spend(100)
        return Value(self.context.ln(re), Decimal(0))

    def absolute(self, a: Value) -> Value:
        if a.im == 0:
            return self.negative(a) if a.re < 0 else a
        return self.power(self.multiply(a, Value(a.re, _negated(a.im))), exact(Fraction(1, 2)))

    def circular(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """cos x and sin x of a real number."""
        if x.copy_abs() > _LARGEST_ANGLE:
            raise Unevaluable("an angle is too large")
        self.spend(300)
        with decimal.localcontext(self.context) as c:
            c.prec = _PRECISION + 20
            x = x - 2 * _PI * (x / (2 * _PI)).to_integral_value()
            sums = [Decimal(0), Decimal(0)]
            term = Decimal(1)
            for n in range(1, 120):
                sums[(n - 1) % 2] += term if (n - 1) % 4 < 2 else -term
                term = term * x / n
            return +sums[0], +sums[1]

    def factorial(self, a: Value) -> Value:
        number = a.rational
        if number is None or number.denominator != 1 or not 0 <= number <= _MOST_FACTORS:
            raise Unevaluable("a factorial is too large or undefined")
        self.spend(int(number))
        return self.checked(Fraction(math.factorial(int(number))), Fraction(0))

    def binomial(self, n: Value, k: Value) -> Value:
        top, bottom = n.rational, k.rational
        if top is None or bottom is None or top.denominator != 1 or bottom.denominator != 1:
            raise Unevaluable("a binomial of fractions")
        if not 0 <= bottom <= top <= _MOST_FACTORS:
            raise Unevaluable("a binomial is too large or undefined")
        self.spend(int(top))
        return self.checked(Fraction(math.comb(int(top), int(bottom))), Fraction(0))

    def agree(self, a: Value, b: Value) -> bool:
        """Exactly equal if both are exact, else to 45 of 60 digits."""
        if (x := a.exact) and (y := b.exact):
            return x == y
        self.spend(20)
        c = self.context
        (ar, ai), (br, bi) = self.decimals(a), self.decimals(b)
        size = max(part.copy_abs() for part in (ar, ai, br, bi))
        off = max(c.subtract(ar, br).copy_abs(), c.subtract(ai, bi).copy_abs())
        return off <= c.multiply(size, _AGREEMENT)


def pi() -> Value:
    """Pi in 60 digits."""
    return Value(decimal.Context(prec=_PRECISION).plus(_PI), Decimal(0))


def _negated(part: Fraction | Decimal) -> Fraction | Decimal:
    return -part if isinstance(part, Fraction) else part.copy_negate()


def _whole_root(number: int, degree: int) -> int:
    """Largest whole number whose power of that degree is not above number > 0 (Newton's iteration from above)."""
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better
