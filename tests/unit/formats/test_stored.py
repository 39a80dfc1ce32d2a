"""Stored trajectories, taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.formats.agentmath import DIALECT as AGENTMATH
from agentmath.formats.dialect import Dialect
from agentmath.formats.dialects import DIALECTS
from agentmath.formats.dual_agent import DIALECT as DUAL
from agentmath.formats.output import neutralise
from agentmath.formats.stored import exchange, generations

ALL = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


@ALL
@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=50).map(str.strip))
def test_what_was_inserted_comes_out_again(dialect: Dialect, output: str):
    said = [dialect.write_call("a", "x = 21"), dialect.write_call("b", "print(2*x)"), dialect.write_answer("c", "42")]
    shown = neutralise(output)
    stored = said[0] + dialect.wrap("") + said[1] + dialect.wrap(shown) + said[2]
    found = exchange(stored, dialect)
    assert [entry.output for entry in found] == ["", shown, None]
    assert [entry.text.strip() for entry in found] == [words.strip() for words in said]


@ALL
def test_programs_without_outputs_are_cut_apart_too(dialect: Dialect):
    said = [dialect.write_call("a", "x = 21"), "\n" + dialect.write_call("b", "print(2*x)"), "\n\\boxed{42}"]
    assert generations("".join(said), dialect) == said
    assert generations("".join(said[:2]) + dialect.wrap("42"), dialect) == said[:2]


def test_what_holds_no_call_stays_whole():
    for text in ("", "\\boxed{1}", "<code>never closed", "<interpreter>1</interpreter>\\boxed{1}"):
        assert generations(text, AGENTMATH) == [text]


def test_a_result_of_several_lines_ends_where_somebody_speaks():
    text = (
        "[CODE_START]\n1\n[CODE_END]\nSandbox execution result: [2,\n 3]\nStrong reward\nReasoning Agent: so\n"
        "[CODE_START]\n2\n[CODE_END]\nSandbox execution result:129\nThe final answer is 129"
    )
    found = exchange(text, DUAL)
    assert [entry.output for entry in found] == ["[2,\n 3]\nStrong reward", "129", None]
    assert found[-1].text == "\nThe final answer is 129"


def test_a_text_of_nothing_but_calls_is_taken_apart_in_time():
    assert len(generations("<code>1</code><interpreter>" * 30_000, AGENTMATH)) == 2
    assert len(generations("<code>1</code>" * 30_000, AGENTMATH)) == 10_001
