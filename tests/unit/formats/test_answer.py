"""The final answer is the last complete, non-empty box."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.formats.answer import last_box


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{1} or \\boxed{2}, finally \\boxed{3}", "3"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{5} so \\boxed{4", "5"),
        ("\\boxed{}", None),
        ("\\boxed{7} \\boxed{}", "7"),
        ("\\fbox{8}", "8"),
        ("\\boxed {9}", "9"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("no box", None),
        ("", None),
    ],
)
def test_last_box(text: str, answer: str | None):
    assert last_box(text) == answer


@given(st.text())
def test_last_box_never_fails(text: str):
    last_box(text)
    last_box("\\boxed{" + text)
