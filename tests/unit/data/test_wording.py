from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.data.wording import answer_value, canonical_number, numbers_of, wording


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How many?", "  HOW\nmany ?"),
        (r"\dfrac{m}{n}", "m/n"),
        (r"\frac{\sqrt{3}}{2}", r"\tfrac {\sqrt3} {2}"),
        (r"\frac12", "1/2"),
        (r"\left( x^2 + 1 \right)", "(x^2+1)"),
        (r"$a \times b$", r"\(a \cdot b\)"),
        ("a \u00d7 b \u2212 c", "a * b - c"),
        ("x \u2264 3", r"x \leq 3"),
        ("x\u00b2", "x^2"),
        (r"1{,}000,000 and 2\,500", "1000000 and 2500"),
        ("0.50", ".5"),
        (r"\textbf{Find} \mathrm{gcd}", "find gcd"),
        (r"\begin{align*} x &= 1 \end{align*}", "x = 1"),
        (r"1, 2, \ldots, n", r"1,2,\dots,n"),
        ("a three-digit number", "a 3 digit number"),
        ("Maya\u2019s 24 \u2014 or more", "maya's 24 or more"),
        ("\uff12\uff14 boxes", "24 boxes"),
        ("\u00bd", "1/2"),
    ],
)
def test_copies_of_one_text_have_one_wording(one: str, other: str) -> None:
    assert wording(one) == wording(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7 + 8", "7 - 8"),
        ("7 * 8", "7 / 8"),
        ("7 < x", "7 > x"),
        ("5!", "5"),
        ("12", "1 2"),
        ("0.5", "5"),
        ("x^2", "x^3"),
        ("boxes", "box"),
        (r"\sin x", r"\cos x"),
        ("-3", "3"),
        ("p-q", "p q"),
    ],
)
def test_what_makes_another_question_stays(one: str, other: str) -> None:
    assert wording(one) != wording(other)


def test_drawing_code_stands_apart_from_what_is_asked() -> None:
    asked = wording("Find x. [asy] draw((0,0)--(1,2)); [/asy] Now.")
    assert asked.words == ("find", "x", "now")
    assert asked.drawing == ("asy", "draw", "0", "0", "1", "2", "/", "asy")
    assert wording("Find x. Now.").words == asked.words
    assert wording(r"A \begin{tikzpicture} \draw (0,0); \end{tikzpicture} b").words == ("a", "b")
    assert wording("[asy] draw(A); [/asy]").words == ("asy", "draw", "a", "/", "asy")
    assert wording("Find x. [asy] never closed").words == ("find", "x")


def test_signs_of_languages_without_blanks_are_words() -> None:
    assert wording("\u6c42 x \u7684\u503c").words == ("\u6c42", "x", "\u7684", "\u503c")


def test_nothing_has_no_wording() -> None:
    assert wording("").words == wording(" \n ?! $$ {} ").words == ()


def test_numbers_are_found_among_the_words() -> None:
    assert numbers_of(wording("Add 3.50, 1,000 and seven to x2.").words) == {"3.5", "1000", "7", "2"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,250", Fraction(1250)),
        ("$18", Fraction(18)),
        ("-0.50", Fraction(-1, 2)),
        (r"\dfrac{1}{2}", Fraction(1, 2)),
        ("035", Fraction(35)),
        ("- 3/4", Fraction(-3, 4)),
        ("1, 2", None),
        ("1 1/2", None),
        ("1/0", None),
        ("x = 5", None),
        (r"2\pi", None),
        ("9" * 5000, None),
        ("", None),
    ],
)
def test_only_rational_answers_have_a_value(text: str, value: Fraction | None) -> None:
    assert answer_value(text) == value


def test_needless_zeros_of_a_number_go() -> None:
    assert [canonical_number(n) for n in ("1.0", "1.50", ".5", "0.0", "10")] == ["1", "1.5", "0.5", "0", "10"]


@given(st.text())
def test_any_text_has_a_wording_and_blanks_around_it_change_nothing(text: str) -> None:
    words = wording(text).words
    assert all(words)
    assert wording(f" {text}\n\n").words == words


@pytest.mark.parametrize(
    "text",
    [
        "[asy]" * 20_000,
        "\\begin{asy}" * 9_000,
        "\\begin" + " " * 99_999,
        "\ud800" * 99_999,
        "9" * 99_999,
        "}{" * 50_000,
    ],
)
def test_long_hostile_texts_are_read_in_one_pass(text: str) -> None:
    assert isinstance(wording(text).words, tuple)
