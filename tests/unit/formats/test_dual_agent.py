"""The dual_agent dialect, on text."""

from __future__ import annotations

import pytest

from agentmath.core.types import StopReason
from agentmath.formats.dual_agent import DIALECT


@pytest.mark.parametrize(
    ("inside", "run"),
    [
        ("\nCode Agent:\nprint(2+2)\n", "print(2+2)"),
        ("\nCode agent:\nprint(2+2)\n", "print(2+2)"),
        ("CODE AGENT : print(2+2)", "print(2+2)"),
        ("\nprint(2+2)\n", "print(2+2)"),
        ("\r\nCode Agent:\r\nx = 1\r\nprint(x)\r\n", "x = 1\nprint(x)"),
        ("\nx = '''\nCode Agent:\n'''\n", "x = '''\nCode Agent:\n'''"),
        ("\nCode Agent:\n```python\nprint(1)\n```\n", "print(1)"),
    ],
)
def test_the_speakers_label_is_no_part_of_the_program(inside: str, run: str):
    assert DIALECT.read(f"Reasoning Agent: go\n[CODE_START]{inside}[CODE_END]", in_think=False).source == run


def test_the_first_end_mark_ends_the_program_wherever_it_stands():
    reading = DIALECT.read('[CODE_START]\nprint("[CODE_END]")\n[CODE_END]', in_think=False)
    assert reading.source == 'print("'


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Reasoning Agent: The final answer is 208.", "208"),
        ("The final answer is 129", "129"),
        ("the FINAL answer is: 3.14. Strong reward to reasoning agent (+1.0)", "3.14"),
        ("The final answer is $x = 2$.\nStrong reward", "x = 2"),
        ("The final answer is **7**", "7"),
        ("The final answer is 1. No, the final answer is 2.", "2"),
        ("The final answer is 1, so \\boxed{2}", "2"),
        ("\\boxed{2} The final answer is 3", "2"),
        ("The final answer is 1, so \\boxed{2", None),
        ("The final answer is .", None),
        ("The final answer is\n5", None),
        ("The answer is 5", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_box_else_the_last_sentence(text: str, answer: str | None):
    assert DIALECT.answer(text) == answer


def test_a_result_that_the_model_writes_is_cut():
    reading = DIALECT.read("Reasoning Agent: ok\nSandbox execution result: 7", in_think=False)
    assert (reading.stop_reason, reading.kept) == (StopReason.INVENTED_OUTPUT, len("Reasoning Agent: ok\n"))
