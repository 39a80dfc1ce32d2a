"""What goes back to the model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.types import ToolResult, ToolStatus
from agentmath.formats.answer import boxed_answer
from agentmath.formats.dialects import DIALECTS
from agentmath.formats.output import neutralise, output_text, printed_text, shorten

MARKS = sorted({tag for dialect in DIALECTS.values() for tag in dialect.tags})
CONTROL = [
    "<|im_end|>",
    "<|endoftext|>",
    "<\uff5cend\uff5c>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "<end_of_turn>",
    "<eos>",
]
SPEAKERS = ["Reasoning Agent:", "Code agent:", "Sandbox execution result:"]
BOXES = ["\\boxed{1}", "\\boxed7", "\\fbox{1}", "\\boxed_1", "\\box {1}"]


@given(st.text(), st.sampled_from([*MARKS, *CONTROL, *SPEAKERS, *BOXES]), st.text())
def test_neutralised_text_holds_no_mark_no_box_no_control_token_and_no_speaker(before: str, mark: str, after: str):
    safe = neutralise(before + mark + after)
    assert not any(live in safe for live in [*MARKS, *CONTROL, *SPEAKERS])
    assert boxed_answer(safe) is None


@pytest.mark.parametrize("mark", ["<CODE>", "</Interpreter>", "[code_start]", "````", "\\Boxed{1}", "<Tool_Call>"])
def test_letter_case_and_longer_fences_make_no_difference(mark: str):
    assert mark not in neutralise(mark)


def test_plain_text_is_left_alone():
    text = "a < b, x<y>z, [1, 2], `x`, ``y``, \\boxtimes, code agents: 3, Code Agent : 1, <codes>, a|b"
    assert neutralise(text) == text


@given(st.lists(st.sampled_from(["<", "code", ">", "`", "\\", "boxed{", "[", "CODE_END", "]", "/", " ", "|"])))
def test_breaking_marks_makes_no_new_ones(parts: list[str]):
    safe = neutralise("".join(parts))
    assert not any(mark in safe for mark in MARKS)
    assert neutralise(safe) == safe


def result(**facts: object) -> ToolResult:
    return ToolResult(**{"status": ToolStatus.OK, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "text", "printed"),
    [
        (
            result(status=ToolStatus.EXCEPTION, stdout="before\n", error="ZeroDivisionError: x"),
            "before\nZeroDivisionError: x",
            "before\nZeroDivisionError: x\n",
        ),
        (result(value="6"), "6", "6\n"),
        (result(stdout="5\n", value="6"), "5", "5\n"),
        (result(value="None"), "", ""),
        (result(stdout="a", stderr="warn\n"), "a\nwarn", "a\nwarn\n"),
        (result(stdout="5"), "5", "5"),
        (result(stdout="5\n\n"), "5", "5\n\n"),
        (result(status=ToolStatus.CPU_TIMEOUT), "[cpu_timeout]", "[cpu_timeout]\n"),
        (result(status=ToolStatus.MEMORY, error="too much"), "[memory] too much", "[memory] too much\n"),
        (result(status=ToolStatus.EXIT, exit_code=0, stdout="1\n"), "1", "1\n"),
        (result(status=ToolStatus.EXIT, exit_code=3), "[exit 3]", "[exit 3]\n"),
    ],
)
def test_output_then_error_then_status(shown: ToolResult, text: str, printed: str):
    assert output_text(shown) == text
    assert printed_text(shown) == printed


@pytest.mark.parametrize(("limit", "short"), [(10, "abcdefghij"), (9, "abcd..hij"), (4, "a..j"), (1, "a..j")])
def test_the_middle_of_what_is_too_long_goes(limit: int, short: str):
    assert shorten("abcdefghij", "..", limit) == short
    ids = [ord(c) for c in "abcdefghij"]
    assert shorten(ids, [46, 46], limit) == [ord(c) for c in short]
