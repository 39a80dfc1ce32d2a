"""The agentmath dialect, on text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.types import SpanKind, StopReason, ToolResult, ToolStatus
from agentmath.formats import agentmath as dialect

THINK, CODE, ANSWER = SpanKind.THINK, SpanKind.CODE, SpanKind.ANSWER


def test_a_block_ends_what_counts_and_spans_cover_it():
    text = "<think>why</think><code>print(1)</code> and more"
    reading = dialect.read(text, in_think=False)
    assert reading.source == "print(1)"
    assert text[: reading.kept] == "<think>why</think><code>print(1)</code>"
    assert reading.spans == ((0, ANSWER), (18, THINK), (18, ANSWER), (39, CODE))
    assert reading.stop_reason is None


def test_a_tag_named_in_prose_does_not_begin_the_program():
    reading = dialect.read("<think>the `<code>` tag</think>\n<code>\nprint(5)\n</code>", in_think=False)
    assert reading.source == "print(5)"


def test_an_open_tag_inside_the_program_stays_program_text():
    reading = dialect.read('<code>x = "<code>"\nprint(len(x))</code>', in_think=False)
    assert reading.source == 'x = "<code>"\nprint(len(x))'


def test_a_closing_tag_alone_ends_the_trajectory():
    reading = dialect.read("print(1)</code>", in_think=False)
    assert reading.source is None
    assert reading.stop_reason is StopReason.FORMAT_ERROR


def test_an_invented_output_is_cut_at_its_tag():
    reading = dialect.read("so\n<interpreter>99</interpreter>\\boxed{99}", in_think=False)
    assert reading.stop_reason is StopReason.INVENTED_OUTPUT
    assert reading.kept == len("so\n")


def test_the_output_tag_inside_a_program_is_not_an_invention():
    reading = dialect.read('<code>print("<interpreter>")</code>', in_think=False)
    assert reading.source == 'print("<interpreter>")'


def test_think_goes_on_after_an_output_when_it_was_open():
    reading = dialect.read(" good.</think>\\boxed{4}", in_think=True)
    assert reading.spans == ((14, THINK), (23, ANSWER))


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("\n```python\nprint(3+4)\n```\n", "print(3+4)"),
        ("```\nprint(1)\n```", "print(1)"),
        ("\n```python\nprint(8)\n", "print(8)"),
        ('\n```python\ns = "```"\nprint(len(s))\n```\n', 's = "```"\nprint(len(s))'),
        ("\nHere is the program:\n```python\nprint(9)\n```\n", "print(9)"),
        ("\r\na = 1\r\nprint(a)\r\n", "a = 1\nprint(a)"),
        ("\ufeffprint(1)", "print(1)"),
        ('x = """\n```python\nprint(1)\n```\n"""', 'x = """\n```python\nprint(1)\n```\n"""'),
        ("if 1 &lt; 2: print(1)", "if 1 &lt; 2: print(1)"),
        ("# just a note", "# just a note"),
        ("\n```python\n\n```\n", ""),
    ],
)
def test_source_is_cleaned_of_fences_and_line_ends_only(written: str, run: str):
    assert dialect.clean_source(written) == run


PARTS = st.lists(st.sampled_from(["<", "<code>", "</code>", "<think>", "</think>", "<interpreter>", "a", "\n"]))


@given(PARTS.map("".join))
def test_spans_always_cover_exactly_what_is_kept(text: str):
    reading = dialect.read(text, in_think=False)
    ends = [end for end, _ in reading.spans]
    assert ends == sorted(ends)
    assert ends[-1] == reading.kept <= len(text)


@given(st.text())
def test_neutralised_text_holds_no_tag_and_no_box(text: str):
    for hostile in (text, "<code>" + text + "</code>", "\\boxed{" + text, "</interpreter>" + text, "\\fbox{1}"):
        safe = dialect.neutralise(hostile)
        assert not any(tag in safe for tag in dialect.TAGS)
        assert "\\boxed" not in safe
        assert "\\fbox" not in safe


def test_output_text_shows_output_then_the_error():
    result = ToolResult(status=ToolStatus.EXCEPTION, stdout="before\n", error="ZeroDivisionError: division by zero")
    assert dialect.output_text(result) == "before\nZeroDivisionError: division by zero"


def test_output_text_shows_the_value_only_when_nothing_was_printed():
    assert dialect.output_text(ToolResult(status=ToolStatus.OK, value="6")) == "6"
    assert dialect.output_text(ToolResult(status=ToolStatus.OK, stdout="5\n", value="6")) == "5"
    assert dialect.output_text(ToolResult(status=ToolStatus.OK, value="None")) == ""


def test_a_status_without_words_is_named():
    assert dialect.output_text(ToolResult(status=ToolStatus.CPU_TIMEOUT)) == "[cpu_timeout]"
    assert dialect.output_text(ToolResult(status=ToolStatus.EXIT, exit_code=3)) == "[exit 3]"
