from __future__ import annotations

import pytest

from agentmath.rewards.clean import canonical, clean, unwrap


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("\u22125", "-5"),
        ("\u20135", "-5"),
        ("2\u00d73", "2*3"),
        ("\u200b42\u200b", "42"),
        (r"\left( 1,\, 2 \right)", "(1,2)"),
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"x \leq 5", r"x\le 5"),
        (r"x>=5", r"x\ge 5"),
        (r"12,\!000,\!023", "12000023"),
        (r"11{,}111", "11111"),
        (r"90^{\circ}", r"90^\circ"),
        ("2\u00bd", r"2\frac{1}{2}"),
        ("2\u215b", r"2\frac{1}{8}"),
        ("2\u00b9\u2070", "2^{10}"),
        ("204\u2085", "204_5"),
        ("\uff15\uff10\uff05", "50%"),
        ("9 1/4", r"9\frac{1}{4}"),
        (r"\text{13}", "13"),
        ("204_{5}", "204_5"),
        ("42<|endoftext|>", "42"),
    ],
)
def test_writings_of_one_thing_become_one_text(written: str, same: str) -> None:
    assert canonical(clean(written)) == canonical(clean(same))


def test_rows_of_a_matrix_are_not_taken_for_escapes() -> None:
    assert canonical(clean(r"1\\ 2")) != canonical(clean("12"))


def test_wrappings_are_taken_off_but_a_lone_dollar_stays() -> None:
    assert unwrap("$42$.") == "42"
    assert unwrap(r"\[ 42 \]") == "42"
    assert unwrap("$18") == "$18"
    assert unwrap("26!") == "26!"
