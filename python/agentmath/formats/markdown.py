r"""The markdown dialect: programs in ```python fences, outputs in ```output fences.

    Multiply them.
    ```python
    print(6*7)
    ```

    ```output
    42
    ```
    \boxed{42}

The first closed python fence ends what counts, the end of its last line included; the output's fence is inserted whole.
A fence may be indented, and may have more than three backticks to hold three of them. Fences of other languages are
prose. The answer is the last box.
"""

from __future__ import annotations

import re

from agentmath.core.types import StopReason
from agentmath.formats.answer import boxed_answer
from agentmath.formats.dialect import THINK_TAGS, Dialect, Found
from agentmath.formats.faults import Fault
from agentmath.formats.source import python_program

CODE_OPEN, CODE_CLOSE, OUTPUT_OPEN = "```python", "```", "```output"
INSTRUCTIONS = r"""Solve the problem step by step. To compute something, write a Python program between a line that says
```python and a line that says ``` and stop there: it is run, and what it prints comes back between a line that says
```output and a line that says ```. Print what you want to see; variables stay for the next program. Never write an
output yourself. State the final answer as \boxed{answer}."""

_FENCE = re.compile(r"^[ \t]*(`{3,})[ \t]*([^`\n]*)$", re.MULTILINE)
_PYTHON = ("python", "python3", "py")


def find(text: str) -> Found:
    """The first closed python fence, or the first output fence outside of one."""
    # As long as the text, so that places agree.
    lines = text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(lines):
        language = fence.group(2).strip().casefold()
        if opened is not None and _is_python(opened):
            if _closes(fence, opened):
                program = python_program(text[opened.end() + 1 : fence.start()])
                kept = min(fence.end() + 1, len(text))
                return Found(kept=kept, begin=opened.start(), program=program)
        elif language in _PYTHON:
            opened = fence
        elif language == "output":
            return Found(kept=fence.start(), stop_reason=StopReason.INVENTED_OUTPUT, faults=(Fault.INVENTED_OUTPUT,))
        elif opened is None:
            opened = fence
        elif _closes(fence, opened):
            opened = None
    if opened is None:
        return Found(kept=len(text))
    if _is_python(opened):
        return Found(kept=len(text), begin=opened.start())
    return Found(kept=len(text), faults=(Fault.UNCLOSED_FENCE,))


def _is_python(fence: re.Match[str]) -> bool:
    return fence.group(2).strip().casefold() in _PYTHON


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return not fence.group(2).strip() and len(fence.group(1)) >= len(opened.group(1))


def write_call(thought: str, program: str) -> str:
    """A turn that thinks and calls."""
    return f"{thought}\n{CODE_OPEN}\n{program}\n{CODE_CLOSE}\n"


def write_answer(thought: str, answer: str) -> str:
    """A last turn."""
    return f"{thought}\n\\boxed{{{answer}}}" if thought else f"\\boxed{{{answer}}}"


DIALECT = Dialect(
    name="markdown",
    tags=(*THINK_TAGS, CODE_OPEN, CODE_CLOSE, OUTPUT_OPEN),
    stop=(f"\n{CODE_CLOSE}\n", OUTPUT_OPEN),
    call_open=CODE_OPEN,
    output_open=f"\n{OUTPUT_OPEN}\n",
    output_close=f"\n{CODE_CLOSE}\n",
    stored_output=re.compile(rf"\s*{OUTPUT_OPEN}[ \t\r]*\n(.*?)^[ \t]*{CODE_CLOSE}(?=\s|\Z)", re.DOTALL | re.MULTILINE),
    find=find,
    answer=boxed_answer,
    answer_form="\\boxed{answer}",
    write_call=write_call,
    write_answer=write_answer,
    instructions=INSTRUCTIONS,
)
