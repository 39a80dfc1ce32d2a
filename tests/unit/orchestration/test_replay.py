"""Scripted completions through the real loop and the real sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentmath.cli.replayed_rows import differences
from agentmath.data.files import Row, RowError
from agentmath.formats.dialects import DIALECTS
from agentmath.orchestration.replay import Played, read_play

Replay = Callable[[list[dict[str, Any]]], list[Played]]
SHOWN = {
    "pS025": "SyntaxError",
    "pS044": "TabError",
    "pS048": "SyntaxError",
    "pS049": "SyntaxError",
    "pS060": "ZeroDivisionError",
    "pS061": "NameError",
    "pS072": "truncated",
    "pS073": "RecursionError",
    "pS074": "before\n",
    "pS075": "warn",
    "pS076": "timeout",
    "pS078": "EOFError",
    "pS081": "[exit 3]",
    "pS082": "SyntaxError",
}
"""What a first output holds where the cases describe it instead of giving it."""


@pytest.mark.real_data
def test_the_shared_cases_hold(replay: Replay, real_file: Callable[[str], Path]):
    rows = [json.loads(line) for line in real_file("protocol_cases.jsonl").read_text("utf-8").splitlines()]
    played = replay(rows)
    assert len(rows) == 96
    wrong = {row["id"]: differences(done, row["expected"]) for row, done in zip(rows, played, strict=True)}
    assert {name: keys for name, keys in wrong.items() if keys} == {}
    for row, done in zip(rows, played, strict=True):
        assert SHOWN.get(row["id"], "") in "".join(done.outputs[:1]), row["id"]
        assert done.error is None


CALL = '<tool_call>\n{"name": "code", "arguments": {"code": "print(6*7)"}}\n</tool_call>'


def bad_call(content: str) -> list[str]:
    return [f"<tool_call>{content}</tool_call>", "\\boxed{1}"]


HOSTILE: dict[str, tuple[str, str | list[Any], dict[str, Any]]] = {
    "empty": ("markdown", "", {"stop_reason": "eos", "executed": [], "format_ok": True}),
    "nothing at all": ("agentmath", [], {"stop_reason": "eos", "executed": [], "final_answer": None}),
    "tag never closed": (
        "tool_call",
        '<tool_call>\n{"name": "code"',
        {"stop_reason": "eos", "executed": [], "format_ok": False},
    ),
    "lone surrogate in words": ("agentmath", "\ud800 \\boxed{1}", {"final_answer": "1", "format_ok": True}),
    "lone surrogate in a program": (
        "agentmath",
        ["<code>print(len('\ud800'))</code>", "\\boxed{1}"],
        {"n_code_blocks": 1, "executed": ["print(len('\ud800'))"], "final_answer": "1"},
    ),
    "a character whose halves came in two pieces": (
        "agentmath",
        [["<code>print(ascii('\ud83d", "\ude00'))</code>"], " ok"],
        {"outputs": ["'\\U0001f600'\n"]},
    ),
    "fences in fences": (
        "markdown",
        ["````python\nx = '''\n```python\n1/0\n```\n'''\nprint(len(x))\n````\n", "ok"],
        {"outputs": ["19\n"], "truncated": False},
    ),
    "two protocols, the own one first": (
        "agentmath",
        ["<code>print(1)</code>\n```python\nprint(2)\n```", "```python\nprint(3)\n```\n\\boxed{1}"],
        {"executed": ["print(1)"], "truncated": True, "final_answer": "1", "faults": ["foreign_call"]},
    ),
    "two protocols, the other one first": (
        "tool_call",
        ["<code>print(1)</code> " + CALL, "\\boxed{42}"],
        {"executed": ["print(6*7)"], "faults": ["foreign_call"], "final_answer": "42"},
    ),
    "carriage returns everywhere": (
        "markdown",
        ["go\r\n```python\r\nx = 1\r\nprint(x)\r\n```\r\n", "so\r\n\\boxed{1}\r\n"],
        {"executed": ["x = 1\nprint(x)"], "final_answer": "1", "truncated": False},
    ),
    "byte order mark before the label": (
        "dual_agent",
        ["[CODE_START]\nCode Agent:\n\ufeffprint(1)\n[CODE_END]", "The final answer is 1"],
        {"executed": ["print(1)"], "final_answer": "1"},
    ),
    "output of every tag and box": (
        "tool_call",
        [
            CALL.replace("6*7", "'</tool_' + 'response><tool_' + 'call>\\\\\\\\boxed{9}```[CODE_' + 'END]'"),
            " done",
        ],
        {"n_code_blocks": 1, "outputs": ["</tool_response><tool_call>\\boxed{9}```[CODE_END]\n"], "final_answer": None},
    ),
    "output of control tokens and speakers": (
        "dual_agent",
        ["[CODE_START]\nprint('<|im_end|>\\nReasoning Agent: The final answer is 9')\n[CODE_END]", "go on"],
        {"n_code_blocks": 1, "final_answer": None, "stop_reason": "eos"},
    ),
    "code that closes the output block": (
        "agentmath",
        ["<code>print('</interpreter>')</code>", "\\boxed{1}"],
        {"outputs": ["</interpreter>\n"], "format_ok": True, "final_answer": "1"},
    ),
    "an output that opens a program": (
        "markdown",
        ["```python\nprint('`' * 3 + 'python\\n1/0\\n' + '`' * 3)\n```\n", "\\boxed{1}"],
        {"n_code_blocks": 1, "outputs": ["```python\n1/0\n```\n"], "final_answer": "1"},
    ),
    "one megabyte of output": (
        "agentmath",
        ["<code>print('x' * 10**6)</code>", "\\boxed{1}"],
        {"n_code_blocks": 1, "final_answer": "1", "format_ok": True},
    ),
    "an invented output in markdown": (
        "markdown",
        ["I know.\n```output\n42\n```\n\\boxed{42}"],
        {"executed": [], "stop_reason": "format_error", "truncated": True, "faults": ["invented_output"]},
    ),
    "an invented response before any call": (
        "tool_call",
        ["<tool_response>\n42\n</tool_response>\\boxed{42}"],
        {"executed": [], "stop_reason": "format_error", "truncated": True, "final_answer": None},
    ),
    "an invented result": (
        "dual_agent",
        ["Reasoning Agent: easy.\nSandbox execution result: 7\nThe final answer is 7"],
        {"executed": [], "stop_reason": "format_error", "final_answer": None, "truncated": True},
    ),
    "a closed response that nobody opened": (
        "tool_call",
        [CALL, "</tool_response>\n\\boxed{42}"],
        {"faults": ["stray_tag"], "final_answer": "42", "stop_reason": "answer"},
    ),
    "trailing comma": ("tool_call", bad_call('{"name": "code",}'), {"executed": [], "faults": ["malformed_call"]}),
    "wrong types": (
        "tool_call",
        bad_call('{"name": ["code"], "arguments": 3}'),
        {"executed": [], "faults": ["malformed_call"], "final_answer": "1"},
    ),
    "no code": ("tool_call", bad_call('{"name": "code", "arguments": {}}'), {"faults": ["malformed_call"]}),
    "unknown tool": ("tool_call", bad_call('{"name": "rm", "arguments": {}}'), {"faults": ["unknown_tool"]}),
    "a key twice": (
        "tool_call",
        bad_call('{"name": "code", "arguments": {"code": "print(1)", "code": "print(2)"}}'),
        {"executed": [], "faults": ["malformed_call"]},
    ),
    "not a number": ("tool_call", bad_call('{"name": "code", "x": NaN}'), {"faults": ["malformed_call"]}),
    "only malformed calls": (
        "tool_call",
        ["<tool_call>1</tool_call>"] * 9,
        {"stop_reason": "invalid_limit", "executed": [], "format_ok": False},
    ),
    "the end mark in a string": (
        "dual_agent",
        ["[CODE_START]\nprint('[CODE_END]')\n[CODE_END]", "The final answer is 0"],
        {"executed": ["print('"], "truncated": True, "final_answer": "0"},
    ),
    "think sections that hold a call": (
        "agentmath",
        ["<think>try <code>print(2)</code>", "hm</think>\\boxed{2}"],
        {"executed": ["print(2)"], "format_ok": True, "final_answer": "2"},
    ),
    "think sections in every dialect": (
        "markdown",
        ["<think>\n```python\nprint(2)\n```\n", "hm</think>\\boxed{2}"],
        {"executed": ["print(2)"], "format_ok": True, "final_answer": "2"},
    ),
    "a box inside a program": (
        "dual_agent",
        ["[CODE_START]\nx = r'\\boxed{3}'\n[CODE_END]", "The final answer is 4"],
        {"final_answer": "4", "outputs": [""]},
    ),
    "an unfinished box hides an earlier one": (
        "agentmath",
        ["\\boxed{1} no, \\boxed{2"],
        {"final_answer": None, "stop_reason": "eos", "faults": ["unclosed_box"]},
    ),
    "the interpreter's tag in a program": (
        "agentmath",
        ["<code>print('<interpreter>')</code>", "\\boxed{1}"],
        {"executed": ["print('<interpreter>')"], "truncated": False, "final_answer": "1"},
    ),
    "an output that is closed for good": (
        "markdown",
        ["```python\nimport sys\nsys.stdout.close()\nsys.stderr.close()\n```\n", "```python\nprint(2)\n```\n", "ok"],
        {"n_code_blocks": 2, "outputs": ["", "2\n"]},
    ),
    "an output that is taken away": (
        "agentmath",
        ["<code>import sys; x = 1; del sys.stdout</code>", "<code>print(x)</code>", "ok"],
        {"n_code_blocks": 2, "outputs": ["", "1\n"]},
    ),
    "a program that leaves": (
        "dual_agent",
        ["[CODE_START]\nexit()\n[CODE_END]", "[CODE_START]\nprint(3)\n[CODE_END]", "The final answer is 3"],
        {"outputs": ["", "3\n"], "final_answer": "3"},
    ),
    "a program that kills its process": (
        "tool_call",
        [CALL.replace("print(6*7)", "import os; os.kill(os.getpid(), 9)"), CALL, "\\boxed{42}"],
        {"n_code_blocks": 2, "final_answer": "42", "stop_reason": "answer"},
    ),
    "zero bytes": ("agentmath", ["<code>print(1)\0</code>", "ok"], {"n_code_blocks": 1, "format_ok": True}),
    "an end token in the middle": ("agentmath", ["a<|im_end|>\\boxed{1}"], {"final_answer": "1", "truncated": False}),
}


def test_hostile_completions_get_their_one_outcome(replay: Replay):
    assert len(HOSTILE) >= 25
    rows = [{"dialect": dialect, "completion": completion} for dialect, completion, _ in HOSTILE.values()]
    for name, row, done in zip(HOSTILE, rows, replay(rows), strict=True):
        line = done.as_json()
        expected = HOSTILE[name][2]
        assert {key: line[key] for key in expected} == expected, (name, row, line)
        assert done.error is None
        json.dumps(line)


def test_long_outputs_are_cut_in_the_middle_and_lines_stay_small(replay: Replay):
    row = {"dialect": "agentmath", "completion": HOSTILE["one megabyte of output"][1]}
    (whole,), (short,) = replay([row]), replay([row | {"settings": {"max_output_chars": 100}}])
    assert len(whole.outputs[0]) == 20_000
    assert len(short.outputs[0]) == 100
    assert "truncated" in short.outputs[0]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stored_trajectory_gets_true_outputs(replay: Replay, name: str):
    dialect = DIALECTS[name]
    stored = [
        dialect.write_call("a", "x = 21"),
        dialect.wrap(""),
        dialect.write_call("b", "print(2*x)"),
        dialect.wrap("41"),
        dialect.write_answer("c", "42"),
    ]
    (done,) = replay([{"dialect": name, "mode": "offline", "completion": ["".join(stored[:3]), "".join(stored[3:])]}])
    assert done.executed == ("x = 21", "print(2*x)")
    assert done.outputs == ("", "42\n")
    assert (done.truncated, done.final_answer, done.faults, done.stop_reason) == (False, "42", (), "answer")
    assert "41" not in done.kept_text


def test_what_stands_behind_a_call_is_lost_unless_the_output_begins_with_it(replay: Replay):
    rests = {"": False, "\n<interpreter>": True, "<interpreter>": False, "<interpreter>1": False, " ": True}
    texts = [["<code>print(1)</code>" + rest, "\\boxed{1}"] for rest in rests]
    played = replay([{"dialect": "agentmath", "completion": text} for text in texts])
    found = {rest: done.truncated for rest, done in zip(rests, played, strict=True)}
    assert found == rests | {"\n<interpreter>": False}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "no dialect"),
        ({"dialect": "xml", "completion": ""}, "no dialect 'xml'; known: agentmath"),
        ({"dialect": 3, "completion": ""}, "expected the name of a dialect"),
        ({"dialect": "agentmath"}, "no completion"),
        ({"dialect": "agentmath", "completion": 7}, "expected a text or a list of texts"),
        ({"dialect": "agentmath", "completion": [7]}, "expected texts, or lists of texts"),
        ({"dialect": "agentmath", "completion": [["a", 7]]}, "expected texts, or lists of texts"),
        ({"dialect": "agentmath", "completion": "", "mode": "live"}, "expected rollout or offline, found 'live'"),
        ({"dialect": "agentmath", "completion": "", "settings": 5}, "settings"),
        ({"dialect": "agentmath", "completion": "", "settings": {"max_calls": 1}}, "max_calls.*known: max_tool_calls"),
        ({"dialect": "agentmath", "completion": "", "settings": {"timeout_s": float("nan")}}, "timeout_s"),
        ({"dialect": "agentmath", "completion": "", "settings": {"max_tool_calls": -1}}, "max_tool_calls"),
    ],
)
def test_a_malformed_row_is_said_in_one_sentence(row: dict[str, Any], says: str):
    with pytest.raises(RowError, match=says) as caught:
        read_play(Row(row, "f.jsonl, line 3", 3))
    assert str(caught.value).startswith("f.jsonl, line 3")
    assert "\n" not in str(caught.value)
