from __future__ import annotations

import pytest

from agentmath.config.grading import GradingSection
from agentmath.rewards.clean import clean
from agentmath.rewards.compare import Comparison, NeedsLibrary
from agentmath.rewards.forms import MAX_ITEMS, read


def same(gold: str, prediction: str, *, with_library: bool = True, **switches: bool) -> bool:
    comparison = Comparison(GradingSection.model_validate(switches), with_library=with_library)
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


def test_members_with_names_or_units_are_told_apart() -> None:
    assert same("x=3, y=4", "y=4, x=3")
    assert not same("x=3, y=4", "x=4, y=3")
    assert not same("5 cm, 6 m", "5 m, 6 cm")


def test_two_decimals_are_equal_up_to_what_floating_point_adds() -> None:
    assert not same("1000000.5", "1000000.6")
    assert not same("0.0000001", "0.0000002")
    assert not same("0.1", "0.1000001")


@pytest.mark.parametrize(
    ("switch", "default", "gold", "prediction"),
    [
        ("accept_unevaluated", False, "5", "2+3"),
        ("accept_unreduced", True, "1/2", "2/4"),
        ("accept_percent_as_fraction", False, r"28\%", "0.28"),
        ("accept_rounded_gold", True, "33.3", r"\frac{100}{3}"),
        ("accept_number_words", False, "21", "twenty-one"),
        ("accept_vectors_as_tuples", False, r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)"),
    ],
)
def test_each_switch_decides_its_own_kind(switch: str, default: bool, gold: str, prediction: str) -> None:
    assert same(gold, prediction) is default
    assert same(gold, prediction, **{switch: True}) is True
    assert same(gold, prediction, **{switch: False}) is False


def test_a_formula_that_rounds_to_a_decimal_of_three_digits_is_right_where_formulas_are() -> None:
    assert same("1.414", r"\sqrt{2}", accept_unevaluated=True)
    assert not same("1.414", r"\sqrt{2}", accept_unevaluated=True, accept_rounded_gold=False)
    assert not same("1.4", r"\sqrt{2}", accept_unevaluated=True)


@pytest.mark.parametrize(
    ("gold", "prediction", "match"),
    [
        ("42", "43", False),
        ("42 cm", "42", True),
        ("(1, 1/2)", "(1, 0.5)", True),
        ("x = 3", "3", True),
        ("5", "2+3", False),
    ],
)
def test_plain_numbers_need_no_library_in_whatever_they_stand(gold: str, prediction: str, match: bool) -> None:
    assert same(gold, prediction, with_library=False) is match


@pytest.mark.parametrize(
    ("gold", "prediction"), [(r"\sqrt{12}", r"2\sqrt{3}"), ("x < 1", "-x > -1"), (r"2\pi", "6.28")]
)
def test_what_needs_the_library_says_so(gold: str, prediction: str) -> None:
    with pytest.raises(NeedsLibrary):
        same(gold, prediction, with_library=False)


def test_a_huge_power_is_not_computed_to_tell_it_from_a_small_number() -> None:
    assert not same("42", "9^{9^{9}}", accept_unevaluated=True)
