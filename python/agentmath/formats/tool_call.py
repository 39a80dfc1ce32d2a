r"""The tool_call dialect: calls as JSON, as the Hermes and Qwen families write them.

    <tool_call>
    {"name": "code", "arguments": {"code": "print(6*7)"}}
    </tool_call>
    <tool_response>
    42
    </tool_response>
    \boxed{42}

Generation pauses at the first </tool_call>. A call that cannot be read is not run: the model is told why, in place of
an output. The answer is the last box.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentmath.formats.answer import boxed_answer
from agentmath.formats.dialect import THINK_CLOSE, THINK_OPEN, THINK_TAGS, Dialect
from agentmath.formats.faults import Fault
from agentmath.formats.source import Program, python_program
from agentmath.formats.tagged import Tags

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
OUTPUT_OPEN, OUTPUT_CLOSE = "<tool_response>", "</tool_response>"
TOOL_NAMES = ("code", "python", "code_interpreter", "python_interpreter")
"""Names of the one tool; models were taught different ones."""
INSTRUCTIONS = r"""Solve the problem step by step. You may call one tool, code, which runs a Python program and returns
what it prints; variables stay for the next program. To call it, write one JSON object and stop there:
<tool_call>
{"name": "code", "arguments": {"code": "print(1 + 1)"}}
</tool_call>
The output comes back between <tool_response> and </tool_response>. Never write an output yourself. State the final
answer as \boxed{answer}."""

_SHOWN_CHARS = 40


class _Malformed(ValueError):
    """Why a call cannot be read, in words for the model."""


def take(written: str) -> Program:
    """The program of a call, or the words for the model; never raises."""
    try:
        call = _parsed(written)
        if not isinstance(call, dict):
            raise _Malformed(f'expected an object {{"name": ..., "arguments": ...}}, found {_kind(call)}')
        name = call.get("name")
        if not isinstance(name, str):
            raise _Malformed(f'"name" must be a text, found {_kind(name)}')
        if name not in TOOL_NAMES:
            known = ", ".join(TOOL_NAMES)
            notice = f"[the call was not run: there is no tool {name[:_SHOWN_CHARS]!r}; known: {known}]"
            return Program(source="", notice=notice, faults=(Fault.UNKNOWN_TOOL,))
        arguments = call.get("arguments")
        if not isinstance(arguments, dict):
            raise _Malformed(f'"arguments" must be an object {{"code": ...}}, found {_kind(arguments)}')
        code = arguments.get("code")
        if not isinstance(code, str):
            raise _Malformed(f'"code" must be a text, found {_kind(code)}')
    except _Malformed as why:
        return Program(source="", notice=f"[the call was not run: {why}]", faults=(Fault.MALFORMED_CALL,))
    return python_program(code)


def _parsed(written: str) -> Any:
    """JSON as the standard has it: no NaN, no key twice. Raises _Malformed."""
    try:
        return json.loads(written, object_pairs_hook=_object, parse_constant=_constant)
    except _Malformed:
        raise
    except json.JSONDecodeError as fault:
        raise _Malformed(f"not JSON: {fault.msg} at character {fault.pos}") from fault
    except RecursionError as fault:
        raise _Malformed("JSON that is nested too deeply") from fault
    except ValueError as fault:
        raise _Malformed("a number with too many digits") from fault


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Malformed(f"the key {twice[:_SHOWN_CHARS]!r} stands there twice")
    return found


def _constant(name: str) -> Any:
    raise _Malformed(f"not JSON: {name}")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(value), "a number")


def write_call(thought: str, program: str) -> str:
    """A turn that thinks and calls."""
    call = json.dumps({"name": TOOL_NAMES[0], "arguments": {"code": program}}, ensure_ascii=False)
    return f"{THINK_OPEN}{thought}{THINK_CLOSE}\n{CALL_OPEN}\n{call}\n{CALL_CLOSE}"


def write_answer(thought: str, answer: str) -> str:
    """A last turn."""
    return f"{THINK_OPEN}{thought}{THINK_CLOSE}\n\\boxed{{{answer}}}" if thought else f"\\boxed{{{answer}}}"


DIALECT = Dialect(
    name="tool_call",
    tags=(*THINK_TAGS, CALL_OPEN, CALL_CLOSE, OUTPUT_OPEN, OUTPUT_CLOSE),
    stop=(CALL_CLOSE, OUTPUT_OPEN),
    call_open=CALL_OPEN,
    output_open=f"\n{OUTPUT_OPEN}\n",
    output_close=f"\n{OUTPUT_CLOSE}\n",
    stored_output=re.compile(f"\\s*{OUTPUT_OPEN}(.*?){OUTPUT_CLOSE}", re.DOTALL),
    find=Tags(opening=CALL_OPEN, closing=CALL_CLOSE, output=OUTPUT_OPEN, take=take).find,
    answer=boxed_answer,
    answer_form="\\boxed{answer}",
    write_call=write_call,
    write_answer=write_answer,
    instructions=INSTRUCTIONS,
)
