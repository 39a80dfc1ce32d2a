from __future__ import annotations

import pytest

from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer
from agentmath.rewards.extract import stated_answer


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
        (r"#### 5 \boxed{6}", "6"),
        (r"#### 5 \boxed{6", None),
    ],
)
def test_only_text_without_any_box_may_state_its_answer_otherwise(text: str, answer: str | None) -> None:
    assert stated_answer(text) == answer
