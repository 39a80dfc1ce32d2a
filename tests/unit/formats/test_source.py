"""Programs as they are run."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.formats.faults import Fault
from agentmath.formats.source import compiles, python_program


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("\n```python\nprint(3+4)\n```\n", "print(3+4)"),
        ("```\nprint(1)\n```", "print(1)"),
        ("\n```python\nprint(8)\n", "print(8)"),
        ('\n```python\ns = "```"\nprint(len(s))\n```\n', 's = "```"\nprint(len(s))'),
        ("\n```python\n```py\nprint(1)\n```\n```", "```py\nprint(1)\n```"),
        ("\r\na = 1\r\nprint(a)\r\n", "a = 1\nprint(a)"),
        ("a = 1\rprint(a)", "a = 1\nprint(a)"),
        ("\ufeffprint(1)", "print(1)"),
        ("\n\ufeffprint('\ufeff')", "print('\ufeff')"),
        ('x = """\n```python\nprint(1)\n```\n"""', 'x = """\n```python\nprint(1)\n```\n"""'),
        ("if 1 &lt; 2: print(1)", "if 1 &lt; 2: print(1)"),
        ("# just a note", "# just a note"),
        ("\n```python\n\n```\n", ""),
        ("\n    x = 2\n    print(x)\n", "x = 2\nprint(x)"),
        ("    x = 2\n  print(x)", "  x = 2\nprint(x)"),
        ("if 1:\n        a = 1\n\tb = 2", "if 1:\n        a = 1\n\tb = 2"),
        ("print('\ud800')", "print('\ud800')"),
        ("", ""),
    ],
)
def test_source_is_cleaned_of_fences_indents_and_line_ends_only(written: str, run: str):
    program = python_program(written)
    assert (program.source, program.notice, program.faults) == (run, None, ())


def test_words_before_a_fence_are_left_out_and_counted():
    program = python_program("\nHere is the program:\n```python\nprint(9)\n```\n")
    assert (program.source, program.faults) == ("print(9)", (Fault.PROSE_IN_PROGRAM,))


@pytest.mark.parametrize("text", ["", "x = ", "\0", "'\ud800'", "(" * 300, "9" * 5000, "x" * 20_001, "pri\u200bnt(1)"])
def test_what_is_no_program_does_not_compile(text: str):
    assert not compiles(text)


def test_compiling_warns_nobody():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert compiles("x = 1 is 1; '\\d'")
    assert caught == []


@given(st.text())
def test_any_text_is_taken_without_failing(text: str):
    source = python_program(text).source
    assert "\r" not in source
    compiles(source)
