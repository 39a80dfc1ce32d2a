from __future__ import annotations

import pytest

from agentmath.rewards.clean import clean
from agentmath.rewards.compare import Comparison
from agentmath.rewards.forms import MAX_ITEMS, read


def same(gold: str, prediction: str, *, accept_unevaluated: bool = False) -> bool:
    comparison = Comparison(accept_unevaluated=accept_unevaluated)
    return comparison.equal(read(clean(gold)), read(clean(prediction)))


def test_order_counts_in_tuples_and_not_in_lists() -> None:
    assert same("1, -2", "-2, 1")
    assert not same("(1,-2)", "(-2,1)")


def test_each_member_of_a_list_needs_a_partner_of_its_own() -> None:
    assert not same("1, 2", "1, 1")
    assert not same("1, 1", "1, 2")
    assert same("1, 1, 2", "2, 1, 1")


def test_lists_longer_than_the_bound_are_never_equal_by_members() -> None:
    long = ", ".join(str(i) for i in range(MAX_ITEMS + 1))
    assert not same(long, ", ".join(str(i) for i in reversed(range(MAX_ITEMS + 1))))


def test_units_on_one_side_are_ignored_and_different_ones_are_not() -> None:
    assert same("15", "15 cm")
    assert same("10080", r"10,080\text{ cm}")
    assert same("15 cm", "15 centimeters")
    assert not same("15 cm", "15 m")
    assert not same("$5", "5 cents")


def test_a_percentage_may_answer_a_fraction_but_not_the_reverse() -> None:
    assert same("0.28", r"28\%")
    assert same("28", r"28\%")
    assert not same(r"28\%", "0.28")


def test_scale_words_multiply() -> None:
    assert same("5000000", "5 million")
    assert not same("5", "5 million")
    assert not same("5", "5 dozens")
    assert not same("5", "5 tenths")
    assert not same("24", "2\u2074")


def test_a_number_has_to_be_computed_unless_that_is_switched_off() -> None:
    assert not same("51", "76 - 25")
    assert same("51", "76 - 25", accept_unevaluated=True)
    assert not same("4", r"\sqrt{16}")
    assert same("4", "x = 8/2")


def test_decimals_are_close_and_integers_exact() -> None:
    assert same("1/3", "0.33333334")
    assert not same("1/3", "0.333")
    assert not same("45", "45.000001")
    assert not same("26", "26.000000000000004")
    assert same("0.3", "0.30000000000000004")


def test_equations_are_equal_up_to_a_factor_and_inequalities_up_to_a_positive_one() -> None:
    assert same("2x+4y-3=0", r"y=-\frac{1}{2}x+\frac{3}{4}")
    assert not same("x-2y+z-1=0", "x-2y+z+1=0")
    assert same("x < 1", "-x > -1")
    assert not same("2x < y", "2x > y")
    assert same("2x < y", "4x - 2y < 0")


def test_different_names_are_different_answers() -> None:
    assert not same("x = 5", "y = 5")
    assert same("x = 5", "5")


@pytest.mark.parametrize(("gold", "prediction"), [("|x|", "x"), ("x", "y"), ("p-q", "q-p"), ("x^2", "x^2+10^{-9}")])
def test_expressions_that_differ_somewhere_differ(gold: str, prediction: str) -> None:
    assert not same(gold, prediction)


def test_what_cannot_be_computed_is_wrong_and_says_so() -> None:
    comparison = Comparison(accept_unevaluated=True)
    assert not comparison.equal(read(clean("42")), read(clean("9^{9^{9}}")))
    assert comparison.rule == "unevaluable"
