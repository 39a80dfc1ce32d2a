"""The markdown dialect, on text."""

from __future__ import annotations

import pytest

from agentmath.core.types import StopReason
from agentmath.formats.faults import Fault
from agentmath.formats.markdown import DIALECT


def source(text: str) -> str | None:
    return DIALECT.read(text, in_think=False).source


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("```py\nprint(1)\n```\n", "print(1)"),
        ("``` Python3 \nprint(1)\n```  ", "print(1)"),
        ("1. Run:\n   ```python\n   print(1)\n   ```\n```output", "print(1)"),
        ('````python\ns = """\n```\n"""\nprint(len(s))\n````', 's = """\n```\n"""\nprint(len(s))'),
        ("```python\r\na = 1\r\nprint(a)\r\n```\r\n", "a = 1\nprint(a)"),
        ("```python\rprint(1)\r```", "print(1)"),
        ("```\nnever closed\n```python\nprint(1)\n```", "print(1)"),
        ("```text\n```\n```python\nprint(1)\n```", "print(1)"),
        ("```python\nprint('```')\n```", "print('```')"),
        ("```python\n```python\nprint(1)\n```", "print(1)"),
        ('<code>x</code>\n```python\nprint("<code>")\n```', 'print("<code>")'),
    ],
)
def test_the_first_closed_python_fence_is_run(text: str, run: str):
    assert source(text) == run


def test_what_counts_ends_with_the_closing_fence():
    text = "a\n```python\nprint(1)\n```"
    assert DIALECT.read(text, in_think=False).kept == len(text)
    for behind in ("", "```output", "```output\n2\n```\n\\boxed{2}", "and so on"):
        assert DIALECT.read(f"{text} \n{behind}", in_think=False).kept == len(text) + 2


@pytest.mark.parametrize(
    "text", ["```text\nhello\n```\n\\boxed{1}", "```\n\\boxed{1}\n```", "so ```python x``` is", "~~~"]
)
def test_other_fences_and_inline_code_are_prose(text: str):
    reading = DIALECT.read(text, in_think=False)
    assert (reading.source, reading.stop_reason, reading.faults, reading.kept) == (None, None, (), len(text))


def test_a_fence_that_is_not_closed_is_counted():
    assert DIALECT.read("```python\nprint(1)", in_think=False).faults == (Fault.UNCLOSED_CODE,)
    assert DIALECT.read("```text\nhello", in_think=False).faults == (Fault.UNCLOSED_FENCE,)


def test_an_output_fence_outside_of_a_program_is_invented():
    reading = DIALECT.read("ok\n  ```Output\n6\n```\n", in_think=False)
    assert (reading.stop_reason, reading.kept) == (StopReason.INVENTED_OUTPUT, len("ok\n"))
    assert source("```python\nx = '''\n```output\n'''\n```") == "x = '''\n```output\n'''"


def test_an_empty_fence_gets_a_notice():
    reading = DIALECT.read("```python\n```", in_think=False)
    assert (reading.source, reading.faults) == (None, (Fault.EMPTY_PROGRAM,))
    assert reading.notice is not None
