from __future__ import annotations

import pytest

from agentmath.config.grading import GradingSection
from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer
from agentmath.rewards.extract import extract, stated_answer, without_think


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{1} or \boxed{2}, finally \boxed{3}", "3"),
        (r"\fbox{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        ("$$\n\\boxed{\n42\n}\n$$", "42"),
        (r"\boxed 7.", "7"),
        (r"\boxed{\boxed{8}}", "8"),
        ("\\boxed{a\\\\}", "a\\\\"),
    ],
)
def test_the_last_box_is_the_answer(text: str, content: str) -> None:
    assert boxed_answer(text) == content


@pytest.mark.parametrize(
    "text", ["", "42", r"\boxed{}", r"\boxed{ }", r"\boxed{42", r"\boxed", r"\boxedfoo{1}", "\\boxed$"]
)
def test_a_text_without_a_complete_box_has_no_answer(text: str) -> None:
    assert boxed_answer(text) is None


def test_a_box_that_was_cut_off_hides_the_one_before() -> None:
    assert boxed_answer(r"\boxed{41}, no: \boxed{4") is None


def test_a_box_longer_than_the_bound_is_no_answer() -> None:
    assert boxed_answer("\\boxed{" + "7" * MAX_ANSWER_CHARS + "}") is not None
    assert boxed_answer("\\boxed{" + "7" * (MAX_ANSWER_CHARS + 1) + "}") is None


def test_many_boxes_that_are_never_closed_are_passed_over_in_linear_time() -> None:
    assert boxed_answer("\\boxed{" * 300_000) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("She had 18 eggs.\n#### 16", "16"),
        ("Answer: 12\nWait.\nanswer is 34", "34"),
        ("the number is not 10 which is 1,000.99", "1,000.99"),
        ("nothing", None),
    ],
)
def test_an_answer_may_be_stated_without_a_box(text: str, answer: str | None) -> None:
    assert stated_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"#### 5 \boxed{6}", "6"),
        (r"#### 5 \boxed{6", None),
        (r"\boxed{1} and \boxed{2}", "1, 2"),
        (r"$\boxed{1}$, $\boxed{2}$ and $\boxed{3}$.", "1, 2, 3"),
        (r"\boxed{b} or \boxed{\frac{1}{2}}", r"b, \frac{1}{2}"),
        (r"\boxed{1} no no \boxed{2}", "2"),
        (r"first \boxed{41}, final \boxed{42}", "42"),
        (r"\boxed{1} and \boxed{2", None),
        (r"<think>\boxed{41}</think>\boxed{42}", "42"),
        (r"<think>so it is \boxed{42}</think> Done.", None),
        (r"\boxed{99}</think>Final: \boxed{42}", "42"),
        (r"<think>never closed \boxed{42}", "42"),
    ],
)
def test_boxes_outside_of_think_sections_come_first(text: str, answer: str | None) -> None:
    assert extract(text, "text", GradingSection()) == answer


def test_the_switches_of_extraction_can_be_turned_off() -> None:
    assert extract(r"\boxed{1} and \boxed{2}", "box", GradingSection(join_boxes=False)) == "2"
    assert extract(r"<think>\boxed{42}</think>", "box", GradingSection(ignore_think=False)) == "42"


def test_text_before_between_and_behind_think_sections_is_kept() -> None:
    assert without_think("a<think>b</think>c<think>d</think>e").split("\n") == ["a", "c", "e"]
    assert without_think("<think>" * 3 + "x") == "<think>" * 3 + "x"


def test_many_joined_boxes_are_passed_over_in_bounded_time() -> None:
    assert extract(r"\boxed{1}," * 100_000, "box", GradingSection()) == ", ".join("1" * 32)
