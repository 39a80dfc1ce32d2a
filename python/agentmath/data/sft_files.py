r"""Files of demonstrations: conversations, or the trajectory records that a run writes.

Conversations (JSONL, JSON, parquet): a column "messages", a list of {"role", "content"}. One user message asks;
assistant messages answer in the dialect. Output blocks in them, and messages of role tool, are outputs: inserted, never
trained. A system message is passed over, as the recipe's [prompt] decides about it.

Records (parquet, written by rollout/recorder.py): of its columns task_id, question, gold, turn_texts, outputs and
reward_parts are read, and only rows with accuracy 1 whose last turn is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentmath.core.errors import DataError
from agentmath.core.types import Demonstration, Task
from agentmath.data.files import Row, read_rows
from agentmath.formats.agentmath import CODE_CLOSE, OUTPUT_CLOSE, OUTPUT_OPEN
from agentmath.formats.answer import boxed_answer

_USER = frozenset(("user", "human"))
_MODEL = frozenset(("assistant", "gpt", "model"))
_TOOL = frozenset(("tool", "interpreter", "function"))
_END_OF_MESSAGE = re.compile(r"(?:<\|\w+\|>|<eos>|</s>|<end_of_turn>)\s*\Z")
"""Decoded end tokens at the end of a recorded turn; rendering adds the tokenizer's own again."""


def read_demonstrations(path: str) -> list[Demonstration]:
    """All demonstrations of a file, in order. Raises DataError."""
    found = [d for row in read_rows(path) if (d := _demonstration(row)) is not None]
    if not found:
        raise DataError(f"{path}: no recorded trajectory in it was right, so there is nothing to learn from")
    return found


def _demonstration(row: Row) -> Demonstration | None:
    if row.find(("messages",)) is not None:
        return _from_messages(row)
    if row.find(("turn_texts",)) is not None:
        return _from_record(row)
    raise DataError(
        f"{row.where}: expected a column 'messages' (conversations) or 'turn_texts' (trajectory records), "
        f"found {', '.join(map(repr, row.cells)) or 'none'}"
    )


def _from_record(row: Row) -> Demonstration | None:
    """A recorded trajectory, None where it was not right or did not come to an answer."""
    try:
        parts = dict(row.cell(("reward_parts",), "parts of the reward"))
    except (TypeError, ValueError) as fault:
        raise DataError(f"{row.where}, column 'reward_parts': expected names and numbers, found {fault}") from fault
    turns, outputs = _texts(row, "turn_texts"), _texts(row, "outputs")
    if parts.get("accuracy") != 1 or len(outputs) != len(turns) - 1:
        return None
    task = Task(
        id=row.text(("task_id",), "task id"),
        question=row.text(("question",), "question"),
        answer=row.text(("gold",), "gold answer"),
    )
    return Demonstration(task=task, turns=(*turns[:-1], _END_OF_MESSAGE.sub("", turns[-1])), outputs=outputs)


def _texts(row: Row, name: str) -> tuple[str, ...]:
    value = row.cell((name,), "list of texts")
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DataError(f"{row.where}, column {name!r}: expected a list of texts")
    return tuple(value)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What the model said, or what was inserted."""

    text: str
    is_output: bool


def _from_messages(row: Row) -> Demonstration:
    question, pieces = _conversation(row)
    turns, outputs = _turns(pieces, row)
    box = boxed_answer("\n".join(turns))
    named = row.find(("answer",))
    answer = row.text(("answer",), "answer") if named is not None and row.cells[named] is not None else box
    if answer is None:
        raise DataError(
            f"{row.where}: a conversation without an answer: no \\boxed{{...}} in it and no column 'answer'"
        )
    identity = row.find(("id",))
    name = str(row.cells[identity]) if identity is not None else f"row-{row.number}"
    return Demonstration(task=Task(id=name, question=question, answer=answer), turns=turns, outputs=outputs)


def _conversation(row: Row) -> tuple[str, list[_Piece]]:
    """The question, and the rest of the conversation in pieces."""
    messages = row.cell(("messages",), "conversation")
    if not isinstance(messages, list) or not messages:
        raise DataError(f"{row.where}, column 'messages': expected a list of {{role, content}}, found {messages!r:.40}")
    question: str | None = None
    pieces: list[_Piece] = []
    for i, message in enumerate(messages, start=1):
        role, content = _message(message, f"{row.where}, message {i}")
        if role in _USER and question is None and not pieces:
            question = content.strip()
        elif role in _MODEL and question is not None:
            pieces += _pieces(content, f"{row.where}, message {i}")
        elif role in _TOOL and question is not None:
            pieces.append(_Piece(content, True))
        elif role != "system" or question is not None:
            raise DataError(
                f"{row.where}, message {i} of role {role!r}: expected one question of the user and then the words of "
                "the assistant (and outputs of role tool)"
            )
    if not question or not pieces:
        raise DataError(f"{row.where}: expected a question of role 'user' and an answer of role 'assistant'")
    return question, pieces


def _message(message: Any, where: str) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise DataError(f"{where}: expected {{role, content}}, found {message!r:.60}")
    content = message.get("content")
    if not isinstance(content, str):
        raise DataError(f"{where} of role {message['role']!r}: expected text as content, found {content!r:.40}")
    return message["role"].casefold(), content


def _pieces(content: str, where: str) -> Iterator[_Piece]:
    """Words of an assistant message and the output blocks in it."""
    while content:
        words, opened, rest = content.partition(OUTPUT_OPEN)
        yield _Piece(words, False)
        if not opened:
            return
        output, closed, content = rest.partition(OUTPUT_CLOSE)
        if not closed:
            raise DataError(f"{where}: {OUTPUT_OPEN} is opened and not closed")
        yield _Piece(output.strip("\n"), True)


def _turns(pieces: list[_Piece], row: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Turns and the outputs between them; a turn ends with its closed program, blanks before an output go."""
    turns: list[str] = [""]
    outputs: list[str] = []
    for piece in pieces:
        if not piece.is_output:
            turns[-1] += piece.text
            continue
        turns[-1] = turns[-1].rstrip()
        if not turns[-1].endswith(CODE_CLOSE):
            raise DataError(
                f"{row.where}: an output without a program before it: expected {CODE_CLOSE} right before it"
            )
        outputs.append(piece.text)
        turns.append("")
    turns[-1] = turns[-1].strip()
    if not turns[-1] or turns[-1].endswith(CODE_CLOSE):
        raise DataError(
            f"{row.where}: the conversation ends with a program or its output: expected an answer behind it"
        )
    inner = [turn.count(CODE_CLOSE) for turn in turns]
    if outputs and (inner[-1] or any(n != 1 for n in inner[:-1])):
        raise DataError(f"{row.where}: some programs have an output and some have none: give all of them or none")
    if not outputs and inner[0]:
        turns = _cut_at_programs(turns[0])
    return tuple(turns), tuple(outputs)


def _cut_at_programs(text: str) -> list[str]:
    """Turns of a conversation without outputs: its programs are still to be run."""
    parts = text.split(CODE_CLOSE)
    return [part.strip() + CODE_CLOSE for part in parts[:-1]] + [parts[-1].strip()]
