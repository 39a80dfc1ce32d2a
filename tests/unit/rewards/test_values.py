from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.rewards.values import Arithmetic, Unevaluable, Value, exact, pi

fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)


def test_pi_agrees_with_machins_formula() -> None:
    def arctan_inverse(n: int) -> Fraction:
        return sum((Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1)) for k in range(60)), Fraction(0))

    reference = 16 * arctan_inverse(5) - 4 * arctan_inverse(239)
    assert abs(Fraction(pi().re) - reference) < Fraction(1, 10**58)


@given(fractions, fractions)
def test_rational_arithmetic_is_exact(x: Fraction, y: Fraction) -> None:
    a = Arithmetic()
    assert a.add(exact(x), exact(y)).rational == x + y
    assert a.multiply(exact(x), exact(y)).rational == x * y
    if y:
        assert a.multiply(exact(x), a.invert(exact(y))).rational == x / y


@given(st.fractions(min_value=Fraction(1, 100), max_value=1000, max_denominator=100))
def test_a_root_times_itself_gives_the_number_back(x: Fraction) -> None:
    a = Arithmetic()
    root = a.power(exact(x), exact(Fraction(1, 2)))
    assert a.agree(a.multiply(root, root), exact(x))


def test_perfect_powers_have_exact_roots() -> None:
    a = Arithmetic()
    assert a.power(exact(Fraction(8, 27)), exact(Fraction(2, 3))).rational == Fraction(4, 9)
    assert a.power(exact(-8), exact(Fraction(1, 3))).rational == -2
    assert a.power(exact(-4), exact(Fraction(1, 2))) == Value(Fraction(0), Fraction(2))


@given(st.floats(min_value=-1000, max_value=1000))
def test_cosine_and_sine_agree_with_the_machines(x: float) -> None:
    cosine, sine = Arithmetic().circular(Decimal(x))
    assert math.isclose(cosine, math.cos(x), abs_tol=1e-12)
    assert math.isclose(sine, math.sin(x), abs_tol=1e-12)


def test_eulers_identity_holds() -> None:
    a = Arithmetic()
    power = a.exp(Value(Decimal(0), pi().re))
    assert abs(power.re + 1) < Decimal("1e-55") and abs(power.im) < Decimal("1e-55")


@pytest.mark.parametrize(
    ("base", "exponent"), [(9, 9**9), (2, 10**6), (0, 0), (0, -1), (Fraction(1, 7), 10**18), (10, -(10**18))]
)
def test_powers_that_are_undefined_or_too_large_are_refused(base: Fraction | int, exponent: int) -> None:
    with pytest.raises(Unevaluable):
        Arithmetic().power(exact(base), exact(exponent))


@pytest.mark.parametrize("number", [-1, Fraction(1, 2), 10**6])
def test_factorials_that_are_undefined_or_too_large_are_refused(number: Fraction | int) -> None:
    with pytest.raises(Unevaluable):
        Arithmetic().factorial(exact(number))


def test_the_budget_ends_long_work() -> None:
    a = Arithmetic()
    large = exact(3**20_000)
    with pytest.raises(Unevaluable, match="work"):
        for _ in range(10_000):
            a.add(large, exact(1))
