"""The final answer is the last complete, non-empty box."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.formats.answer import boxed_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{1} or \\boxed{2}, finally \\boxed{3}", "3"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{5} so \\boxed{4", None),
        ("\\boxed{}", None),
        ("\\boxed{7} \\boxed{}", None),
        ("\\fbox{8}", "8"),
        ("\\boxed {9}", "9"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("no box", None),
        ("", None),
    ],
)
def test_boxed_answer(text: str, answer: str | None):
    assert boxed_answer(text) == answer


@given(st.text())
def test_boxed_answer_never_fails(text: str):
    boxed_answer(text)
    boxed_answer("\\boxed{" + text)
