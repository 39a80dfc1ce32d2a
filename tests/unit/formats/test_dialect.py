"""What holds in every dialect."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.config.prompt import PromptSection
from agentmath.core.errors import ConfigError
from agentmath.core.types import SAMPLED_KINDS, SpanKind, StopReason
from agentmath.formats.dialect import Dialect
from agentmath.formats.dialects import DIALECTS, dialect_named
from agentmath.formats.faults import Fault
from agentmath.formats.output import neutralise

ALL = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
PROGRAM = 'for i in range(3):\n\tprint(f"{i}: \\"x\\"")'
MARKS = sorted({tag for dialect in DIALECTS.values() for tag in (*dialect.tags, dialect.output_open, *dialect.stop)})
NOISE = [
    "print(1)",
    "\n",
    "a",
    "<",
    "`",
    "\\boxed{1}",
    "\\boxed{",
    "}",
    "Code Agent:",
    "\r\n",
    '{"code": "1"}',
    "\ud800",
]
texts = st.lists(st.sampled_from([*MARKS, *NOISE])).map("".join) | st.text()


def test_a_recipe_can_name_every_dialect_and_no_other():
    assert set(get_args(PromptSection.model_fields["dialect"].annotation)) == DIALECTS.keys()
    with pytest.raises(ConfigError, match="no dialect 'xml'; known: agentmath, markdown, dual_agent, tool_call"):
        dialect_named("xml")


@ALL
def test_what_is_written_is_read(dialect: Dialect):
    text = dialect.write_call("why", PROGRAM)
    reading = dialect.read(text, in_think=False)
    assert (reading.source, reading.kept, reading.faults) == (PROGRAM, len(text), ())
    for thought in ("", "Easy."):
        last = dialect.write_answer(thought, "\\frac{1}{2}")
        assert dialect.answer(last) == "\\frac{1}{2}"
        assert dialect.read(last, in_think=False).faults == ()


@ALL
def test_what_is_written_behind_a_call_does_not_count(dialect: Dialect):
    text = dialect.write_call("why", PROGRAM)
    reading = dialect.read(text + dialect.wrap("6") + dialect.write_answer("", "6"), in_think=False)
    assert (reading.kept, reading.source) == (len(text), PROGRAM)


@ALL
def test_an_output_that_the_model_writes_is_cut(dialect: Dialect):
    reading = dialect.read("so" + dialect.wrap("6") + dialect.write_answer("", "6"), in_think=False)
    assert reading.stop_reason is StopReason.INVENTED_OUTPUT
    assert reading.faults == (Fault.INVENTED_OUTPUT,)
    assert reading.kept in (len("so"), len("so\n"))


@ALL
def test_a_stop_text_is_complete_where_a_call_is_and_where_an_output_begins(dialect: Dialect):
    call = dialect.write_call("why", PROGRAM)
    assert any((call + "\n").endswith(stop) or call.endswith(stop) for stop in dialect.stop)
    assert any(stop in dialect.output_open for stop in dialect.stop)


@ALL
def test_a_program_that_is_not_ended_is_not_run(dialect: Dialect):
    text = dialect.write_call("why", PROGRAM)
    reading = dialect.read(text[: text.rindex("x") + 1], in_think=False)
    assert (reading.source, reading.notice, reading.stop_reason) == (None, None, None)
    assert Fault.UNCLOSED_CODE in reading.faults


@ALL
@pytest.mark.parametrize("other", DIALECTS)
def test_calls_of_other_dialects_are_text_and_counted(dialect: Dialect, other: str):
    if DIALECTS[other] is dialect:
        return
    reading = dialect.read(DIALECTS[other].write_call("", "print(1)") + "\n\\boxed{1}", in_think=False)
    assert (reading.source, reading.notice, reading.stop_reason) == (None, None, None)
    assert reading.faults == (Fault.FOREIGN_CALL,)


@ALL
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<CODE>print(1)</CODE>", Fault.FOREIGN_CALL),
        ("&lt;code&gt;print(1)&lt;/code&gt;", Fault.FOREIGN_CALL),
        ('<function_calls>\n<invoke name="code">', Fault.FOREIGN_CALL),
        ("<think>so", Fault.UNCLOSED_THINK),
        ("so \\boxed{4", Fault.UNCLOSED_BOX),
    ],
)
def test_faults_of_prose_are_counted(dialect: Dialect, text: str, fault: Fault):
    assert dialect.read(text, in_think=False).faults == (fault,)


@ALL
@pytest.mark.parametrize(
    "text",
    ["", "I give up.", "2+2</think>\n\\boxed{4}", "a <complex> value <code_x> x <", "\\boxed{}", "the tag `<x>` is"],
)
def test_plain_words_are_well_formed(dialect: Dialect, text: str):
    assert dialect.read(text, in_think=False).faults == ()


@ALL
@given(texts, st.booleans())
def test_spans_cover_exactly_what_is_kept(dialect: Dialect, text: str, in_think: bool):
    reading = dialect.read(text, in_think=in_think)
    ends = [end for end, _ in reading.spans]
    assert ends == sorted(ends)
    assert ends[-1] == reading.kept <= len(text)
    assert all(kind in SAMPLED_KINDS for _, kind in reading.spans)
    assert (reading.source is not None) + (reading.notice is not None) + (reading.stop_reason is not None) <= 1
    has_code = any(kind is SpanKind.CODE for _, kind in reading.spans)
    assert has_code or (reading.source is None and reading.notice is None)


@ALL
@given(texts)
def test_no_output_can_be_read_as_anything(dialect: Dialect, output: str):
    safe = neutralise(output)
    reading = dialect.read(safe, in_think=False)
    assert (reading.source, reading.notice, reading.stop_reason, reading.kept) == (None, None, None, len(safe))
    assert dialect.answer(safe) is None or dialect.name == "dual_agent"
    stored = dialect.stored_output.match(dialect.wrap(safe))
    assert stored is not None
    assert dialect.unwrap(dialect.wrap(output)) == output
