"""The agentmath dialect, on text."""

from __future__ import annotations

from agentmath.core.types import SpanKind, StopReason
from agentmath.formats.agentmath import DIALECT
from agentmath.formats.faults import Fault

THINK, CODE, ANSWER = SpanKind.THINK, SpanKind.CODE, SpanKind.ANSWER


def test_a_block_ends_what_counts_and_spans_cover_it():
    text = "<think>why</think><code>print(1)</code> and more"
    reading = DIALECT.read(text, in_think=False)
    assert reading.source == "print(1)"
    assert text[: reading.kept] == "<think>why</think><code>print(1)</code>"
    assert reading.spans == ((0, ANSWER), (18, THINK), (18, ANSWER), (39, CODE))
    assert (reading.stop_reason, reading.faults) == (None, ())


def test_a_tag_named_in_prose_does_not_begin_the_program():
    reading = DIALECT.read("<think>the `<code>` tag</think>\n<code>\nprint(5)\n</code>", in_think=False)
    assert reading.source == "print(5)"
    assert reading.faults == ()


def test_an_open_tag_inside_the_program_stays_program_text():
    reading = DIALECT.read('<code>x = "<code>"\nprint(len(x))</code>', in_think=False)
    assert reading.source == 'x = "<code>"\nprint(len(x))'


def test_a_closing_tag_alone_ends_the_trajectory():
    reading = DIALECT.read("print(1)</code>", in_think=False)
    assert reading.source is None
    assert (reading.stop_reason, reading.faults) == (StopReason.FORMAT_ERROR, (Fault.STRAY_TAG,))


def test_an_invented_output_is_cut_at_its_tag():
    reading = DIALECT.read("so\n<interpreter>99</interpreter>\\boxed{99}", in_think=False)
    assert reading.stop_reason is StopReason.INVENTED_OUTPUT
    assert reading.kept == len("so\n")
    assert reading.faults == (Fault.INVENTED_OUTPUT,)


def test_the_output_tag_inside_a_program_is_not_an_invention():
    reading = DIALECT.read('<code>print("<interpreter>")</code>', in_think=False)
    assert reading.source == 'print("<interpreter>")'


def test_think_goes_on_after_an_output_when_it_was_open():
    reading = DIALECT.read(" good.</think>\\boxed{4}", in_think=True)
    assert reading.spans == ((14, THINK), (23, ANSWER))
    assert reading.faults == ()


def test_a_program_that_is_not_ended_is_no_call_and_its_box_no_answer():
    reading = DIALECT.read("<code>\nprint(1)\nThe answer is \\boxed{1}", in_think=False)
    assert (reading.source, reading.stop_reason, reading.faults) == (None, None, (Fault.UNCLOSED_CODE,))
    assert reading.spans[-1] == (reading.kept, CODE)


def test_an_empty_program_gets_a_notice():
    reading = DIALECT.read("<code>\n```python\n\n```\n</code>", in_think=False)
    assert reading.source is None
    assert reading.notice == "[the code block was empty: nothing was run]"
    assert reading.faults == (Fault.EMPTY_PROGRAM,)
