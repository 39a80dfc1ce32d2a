"""The tool_call dialect, on text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.formats.faults import Fault
from agentmath.formats.tool_call import DIALECT, TOOL_NAMES, take


def call(content: str) -> str:
    return f"<tool_call>\n{content}\n</tool_call>"


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_a_call_by_any_name_of_the_tool_is_run(name: str):
    text = call(f'{{"arguments": {{"code": "a = 1\\r\\nprint(a)", "lang": "py"}}, "id": 3, "name": "{name}"}}')
    reading = DIALECT.read("<think>x</think>" + text, in_think=False)
    assert (reading.source, reading.faults) == ("a = 1\nprint(a)", ())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not JSON: Expecting value at character"),
        ("print(1)", "not JSON: Expecting value at character"),
        ('{"name": "code", "arguments": {"code": "1"}', "not JSON: "),
        ('{"name": "code", "arguments": {"code": "1",}}', "not JSON: "),
        ("{'name': 'code'}", "not JSON: "),
        ('{"name": "code", "arguments": {"code": "1\n2"}}', "not JSON: Invalid control character"),
        ('{"name": "code", "arguments": {"code": "1"}} extra', "not JSON: Extra data"),
        ('{"name": "code", "arguments": {"code": "1"}, "x": NaN}', "not JSON: NaN"),
        ('{"name": "code", "arguments": {"code": "1"}, "x": -Infinity}', "not JSON: -Infinity"),
        ('{"name": "code", "name": "code", "arguments": {"code": "1"}}', "the key 'name' stands there twice"),
        ('{"name": "code", "arguments": {"code": "1", "code": "2"}}', "the key 'code' stands there twice"),
        ('[{"name": "code", "arguments": {"code": "1"}}]', "found a list"),
        ('"print(1)"', "found a text"),
        ("7", "found a number"),
        ("null", "found nothing"),
        ('{"arguments": {"code": "1"}}', '"name" must be a text, found nothing'),
        ('{"name": 3, "arguments": {"code": "1"}}', '"name" must be a text, found a number'),
        ('{"name": "code"}', '"arguments" must be an object'),
        ('{"name": "code", "arguments": "print(1)"}', '"arguments" must be an object {"code": ...}, found a text'),
        ('{"name": "code", "arguments": {}}', '"code" must be a text, found nothing'),
        ('{"name": "code", "arguments": {"code": ["1"]}}', '"code" must be a text, found a list'),
        ('{"name": "code", "arguments": {"code": true}}', '"code" must be a text, found true or false'),
        ('{"name": "code", "arguments": {"code": 1' + "0" * 5000 + "}}", "too many digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_call_that_cannot_be_read_is_answered_and_counted(content: str, says: str):
    reading = DIALECT.read(call(content), in_think=False)
    assert reading.source is None
    assert reading.notice is not None
    assert reading.notice.startswith("[the call was not run: ")
    assert says in reading.notice
    assert len(reading.notice) < 200
    assert reading.faults == (Fault.MALFORMED_CALL,)


def test_an_unknown_tool_is_answered_with_the_known_ones():
    reading = DIALECT.read(call('{"name": "search", "arguments": {"q": "x"}}'), in_think=False)
    assert reading.notice is not None
    assert "no tool 'search'; known: code, python" in reading.notice
    assert reading.faults == (Fault.UNKNOWN_TOOL,)


def test_an_empty_program_gets_a_notice_of_its_own():
    reading = DIALECT.read(call('{"name": "code", "arguments": {"code": " \\n"}}'), in_think=False)
    assert (reading.source, reading.faults) == (None, (Fault.EMPTY_PROGRAM,))


def test_half_a_surrogate_pair_is_taken_as_it_is():
    assert take('{"name": "code", "arguments": {"code": "print(\\"\\ud800\\")"}}').source == 'print("\ud800")'


def test_a_tag_named_in_prose_does_not_begin_the_call():
    text = "I use `<tool_call>` now.\n" + call('{"name": "code", "arguments": {"code": "print(1)"}}')
    assert DIALECT.read(text, in_think=False).source == "print(1)"


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x)).map(str))
def test_nothing_makes_it_fail(content: str):
    program = take(content)
    assert program.source == "" or program.notice is None
