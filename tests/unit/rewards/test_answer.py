from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentmath.rewards.answer import grade, grade_answer, quick_verdict

numbers = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.fractions(max_denominator=50).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
    st.integers(1, 10**9).map(lambda n: f"{n:,}"),
)
latex = st.text(alphabet="0123456789xyie+-*/^_=<>(){}[]|!%$&,.;: \\\n\u00bd\u03c0", max_size=80)
words = st.sampled_from(
    [
        r"\frac",
        r"\sqrt",
        r"\boxed{",
        r"\text{",
        "{",
        "}",
        r"\pm",
        r"\cup",
        r"\le",
        r"\{",
        r"\}",
        "12",
        "x",
        r"\\",
        "^",
        "(",
    ]
)


def rows(path: Path) -> list[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_a_verdict_tells_what_was_found_and_why() -> None:
    verdict = grade("42", r"I think \boxed{41}.")
    assert (verdict.match, verdict.extracted, verdict.rule, verdict.error) == (False, "41", "number", None)
    assert grade("42", "no box").rule == "no-answer"
    assert grade("42", r"\boxed{042}").match is True


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        (r"\emptyset", r"\varnothing", r"\{0\}"),
        (r"\emptyset", r"\{\}", r"\{\emptyset\}"),
        ("\u2205", r"\emptyset", "0"),
        (r"\text{3 apples}", "3", "4"),
        (r"\text{3 apples}", r"3\text{ apples}", "3 pears"),
        ("60 mph", "60 miles per hour", "60 km per hour"),
        ("60 mph", r"60\text{ miles/hour}", "60 miles"),
        ("5 km/h", "5 kilometers per hour", "5 mph"),
        ("3", "`3`", "`4`"),
        (r"a \cdot b", "ba", "a+b"),
        ("ab", "b*a", "a*c"),
        ("7+i", "(2+i)(3-i)", "7+i^3"),
    ],
)
def test_one_answer_in_other_words(gold: str, right: str, wrong: str) -> None:
    assert grade_answer(gold, right).match is True
    assert grade_answer(gold, wrong).match is False


def test_training_reads_boxes_alone() -> None:
    assert grade("42", "The answer is 42.").match is False
    assert grade("42", "The answer is 42.", form="text").match is True


def test_an_empty_gold_answer_is_never_right() -> None:
    assert grade_answer("", "").match is False
    assert grade_answer(" ", "1").rule == "no-gold"


def test_an_empty_prediction_is_never_right() -> None:
    assert grade_answer("4", " ").match is False
    assert grade_answer(".", ",").match is False


@given(numbers, numbers)
def test_grading_numbers_is_symmetric(a: str, b: str) -> None:
    assert grade_answer(a, b).match is grade_answer(b, a).match


@given(numbers)
def test_a_number_equals_itself_in_a_box_and_in_a_formula(a: str) -> None:
    assert grade(a, f"So $\\boxed{{{a}}}$.").match is True
    assert grade_answer(a, f"x = {a}").match is True


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_integers_are_right_only_when_equal(a: int, b: int) -> None:
    assert grade_answer(str(a), str(b)).match is (a == b)


@given(st.one_of(latex, st.text(max_size=80), st.lists(words, max_size=40).map("".join)), st.one_of(latex, numbers))
@example("\ud800", "\x00")
@example("9^{9^{9}}", "10**10**8")
@example("().__class__.__bases__[0]", "4")
def test_no_text_makes_the_quick_way_raise_and_all_text_equals_itself(a: str, b: str) -> None:
    for verdict in (quick_verdict(a, b), quick_verdict(b, a)):
        assert verdict is None or verdict.match in (True, False)
    itself = quick_verdict(a, a)
    assert itself is not None
    assert itself.match or itself.rule in ("no-answer", "no-gold")


def test_texts_made_to_take_forever_are_answered_at_once_or_left_to_the_workers() -> None:
    names = ("a" * 1990 + "=1", "a_b" * 600 + "=-", "f(1)" * 450 + "=+", "a_{b}" * 300 + " cm", "ab " * 600 + "=-1")
    powers = ("9^{9^{9}}", "1000000!", "1," * 4000, r"\sin(10^{5})+" * 150 + "1", "1 " * 5000, "5 million " * 190)
    signs = ("(" * 5000, "$" * 9999, "x!" * 900, "|x" * 600, r"\pm" * 600, " " * 9999 + "x", "1" + " " * 9000 + "x")
    for text in (*names, *powers, *signs, "7" * 10_000, "7" * 1_000_000, "1/" * 900 + "1", r"\frac1" * 300):
        verdict = quick_verdict("42", text)
        assert verdict is not None and verdict.match is False
        other = quick_verdict(text, "42")
        assert other is None or other.match is False


def test_a_defect_of_the_library_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise KeyError("oops")

    monkeypatch.setattr("agentmath.rewards.symbolic.same_value", broken)
    verdict = grade_answer(r"\sqrt{2}", r"\sqrt{3}")
    assert (verdict.match, verdict.rule, verdict.extracted) == (None, "error", r"\sqrt{3}")
    assert verdict.error is not None and "KeyError" in verdict.error


@pytest.mark.parametrize(
    "name",
    [
        "gsm8k_train.jsonl.gz",
        "gsm8k_test.jsonl",
        "svamp.jsonl",
        "multiarith.jsonl",
        "math500.jsonl",
        "aime2024.jsonl",
        "aime_1983_2023.jsonl.gz",
        "hmmt_feb_2025.jsonl",
        "math_train.jsonl.gz",
        "deepscaler_subset.jsonl.gz",
    ],
)
def test_every_gold_answer_equals_itself(name: str, real_file: Callable[[str], Path]) -> None:
    golds = {row["answer"] for row in rows(real_file(name)) if row["answer"]}
    assert [gold for gold in golds if grade(gold, f"Hence \\boxed{{{gold}}}.").match is not True] == []
