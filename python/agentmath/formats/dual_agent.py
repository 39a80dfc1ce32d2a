r"""The dual_agent dialect: [CODE_START] and [CODE_END], as the dual-agent paper's examples write it.

    Reasoning Agent: multiply them.
    [CODE_START]
    Code Agent:
    print(6*7)
    [CODE_END]
    Sandbox execution result: 42
    Reasoning Agent: The final answer is 42

Generation pauses at the first [CODE_END]. The paper sets the speaker's label inside the marks, where it is no Python:
it is taken off, in either spelling. The answer is the last box, or, where no box was opened, the sentence above.
"""

from __future__ import annotations

import re

from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer
from agentmath.formats.dialect import THINK_TAGS, Dialect
from agentmath.formats.source import Program, python_program
from agentmath.formats.tagged import Tags

CODE_OPEN, CODE_CLOSE = "[CODE_START]", "[CODE_END]"
OUTPUT = "Sandbox execution result:"
REASONER = "Reasoning Agent:"
INSTRUCTIONS = f"""Two agents solve the problem together, and you speak for both. {REASONER} plans, one step at a time.
Where something must be computed, Code Agent: writes a Python program between the lines {CODE_OPEN} and {CODE_CLOSE} and
stops there: it is run, and what it prints comes back after the words "{OUTPUT}". Print what is to be
seen; variables stay for the next program. Never write a result yourself. At the end {REASONER} says: The final answer
is ANSWER"""

_LABEL = re.compile(r"\s*code agent[ \t]*:", re.IGNORECASE)
_SENTENCE = re.compile(r"\bfinal answer is\b[ \t]*:?", re.IGNORECASE)
_SENTENCE_END = re.compile(r"\.(?=\s|\Z)")
_STORED = re.compile(
    rf"\s*{OUTPUT}[ \t]?(.{{0,20000}}?(?=\n[ \t]*(?:Reasoning|Code) Agent:)|[^\n]*)", re.DOTALL | re.IGNORECASE
)
"""Up to the next speaker, else one line: nothing closes an output in the paper's examples."""


def take(written: str) -> Program:
    """The program between the marks, without the speaker's label."""
    label = _LABEL.match(written)
    return python_program(written[label.end() :] if label else written)


def answer(text: str) -> str | None:
    """The last box, or without any box what the last "final answer is" is followed by, up to the sentence's end."""
    if "\\boxed" in text or "\\fbox" in text:
        return boxed_answer(text)
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    line = text[ends[-1] :].partition("\n")[0] if ends else ""
    stated = _SENTENCE_END.split(line, maxsplit=1)[0].strip(" \t\r$*`")
    return stated if 0 < len(stated) <= MAX_ANSWER_CHARS else None


def write_call(thought: str, program: str) -> str:
    """A turn that plans and calls."""
    return f"{REASONER} {thought}\n{CODE_OPEN}\nCode Agent:\n{program}\n{CODE_CLOSE}"


def write_answer(thought: str, answer: str) -> str:
    """A last turn."""
    return f"{REASONER} {thought}{' ' if thought else ''}The final answer is {answer}"


DIALECT = Dialect(
    name="dual_agent",
    tags=(*THINK_TAGS, CODE_OPEN, CODE_CLOSE, OUTPUT),
    stop=(CODE_CLOSE, OUTPUT),
    call_open=CODE_OPEN,
    output_open=f"\n{OUTPUT} ",
    output_close="\n",
    stored_output=_STORED,
    find=Tags(opening=CODE_OPEN, closing=CODE_CLOSE, output=OUTPUT, take=take).find,
    answer=answer,
    answer_form='\\boxed{answer} or "The final answer is answer"',
    write_call=write_call,
    write_answer=write_answer,
    instructions=INSTRUCTIONS,
)
