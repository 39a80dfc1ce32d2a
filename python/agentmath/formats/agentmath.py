r"""The agentmath dialect: <think>, <code>, <interpreter> and \boxed{}.

    <think>why</think><code>print(6*7)</code><interpreter>42</interpreter>\boxed{42}

Generation pauses at the first </code>; the program runs; its output is inserted; generation goes on. The answer is the
last box.
"""

from __future__ import annotations

import re

from agentmath.formats.answer import boxed_answer
from agentmath.formats.dialect import THINK_CLOSE, THINK_OPEN, THINK_TAGS, Dialect
from agentmath.formats.source import python_program
from agentmath.formats.tagged import Tags

CODE_OPEN, CODE_CLOSE = "<code>", "</code>"
OUTPUT_OPEN, OUTPUT_CLOSE = "<interpreter>", "</interpreter>"
INSTRUCTIONS = r"""Solve the problem step by step. Think between <think> and </think>.
To compute something, write a Python program between <code> and </code> and stop there: it is run, and what it prints
comes back between <interpreter> and </interpreter>. Print what you want to see; variables stay for the next program.
Never write an output yourself. State the final answer as \boxed{answer}."""


def write_call(thought: str, program: str) -> str:
    """A turn that thinks and calls."""
    return f"{THINK_OPEN}{thought}{THINK_CLOSE}{CODE_OPEN}{program}{CODE_CLOSE}"


def write_answer(thought: str, answer: str) -> str:
    """A last turn."""
    return f"{THINK_OPEN}{thought}{THINK_CLOSE}\\boxed{{{answer}}}" if thought else f"\\boxed{{{answer}}}"


DIALECT = Dialect(
    name="agentmath",
    tags=(*THINK_TAGS, CODE_OPEN, CODE_CLOSE, OUTPUT_OPEN, OUTPUT_CLOSE),
    stop=(CODE_CLOSE, OUTPUT_OPEN),
    call_open=CODE_OPEN,
    output_open=OUTPUT_OPEN,
    output_close=OUTPUT_CLOSE,
    stored_output=re.compile(f"\\s*{OUTPUT_OPEN}(.*?){OUTPUT_CLOSE}", re.DOTALL),
    find=Tags(opening=CODE_OPEN, closing=CODE_CLOSE, output=OUTPUT_OPEN, take=python_program).find,
    answer=boxed_answer,
    answer_form="\\boxed{answer}",
    write_call=write_call,
    write_answer=write_answer,
    instructions=INSTRUCTIONS,
)
