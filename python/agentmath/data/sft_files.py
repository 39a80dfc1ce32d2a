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
from agentmath.core.types import Demonstration, StopReason, Task
from agentmath.data.files import Row, read_rows
from agentmath.formats import agentmath
from agentmath.formats.dialect import Dialect
from agentmath.formats.stored import exchange

_USER = frozenset(("user", "human"))
_MODEL = frozenset(("assistant", "gpt", "model"))
_TOOL = frozenset(("tool", "interpreter", "function"))
_END_OF_MESSAGE = re.compile(r"(?:<\|\w+\|>|<eos>|</s>|<end_of_turn>)\s*\Z")
"""Decoded end tokens at the end of a recorded turn; rendering adds the tokenizer's own again."""


def read_demonstrations(path: str, dialect: Dialect = agentmath.DIALECT) -> list[Demonstration]:
    """All demonstrations of a file, in order. Raises DataError."""
    found = [d for row in read_rows(path) if (d := _demonstration(row, dialect)) is not None]
    if not found:
        raise DataError(f"{path}: no recorded trajectory in it was right, so there is nothing to learn from")
    return found


def _demonstration(row: Row, dialect: Dialect) -> Demonstration | None:
    if row.find(("messages",)) is not None:
        return _from_messages(row, dialect)
    if row.find(("turn_texts",)) is not None:
        return _from_record(row, dialect)
    raise DataError(
        f"{row.where}: expected a column 'messages' (conversations) or 'turn_texts' (trajectory records), "
        f"found {', '.join(map(repr, row.cells)) or 'none'}"
    )


def _from_record(row: Row, dialect: Dialect) -> Demonstration | None:
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
    outputs = tuple(map(dialect.unwrap, outputs))
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


def _from_messages(row: Row, dialect: Dialect) -> Demonstration:
    question, pieces = _conversation(row, dialect)
    turns, outputs = _turns(pieces, row, dialect)
    box = dialect.answer("\n".join(turns))
    named = row.find(("answer",))
    answer = row.text(("answer",), "answer") if named is not None and row.cells[named] is not None else box
    if answer is None:
        raise DataError(
            f"{row.where}: a conversation without an answer: no {dialect.answer_form} in it and no column 'answer'"
        )
    identity = row.find(("id",))
    name = str(row.cells[identity]) if identity is not None else f"row-{row.number}"
    return Demonstration(task=Task(id=name, question=question, answer=answer), turns=turns, outputs=outputs)


def _conversation(row: Row, dialect: Dialect) -> tuple[str, list[_Piece]]:
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
            pieces += _pieces(content, f"{row.where}, message {i}", dialect)
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


def _pieces(content: str, where: str, dialect: Dialect) -> Iterator[_Piece]:
    """Words of an assistant message and the output blocks in it."""
    mark = dialect.output_open.strip()
    for words, output in exchange(content, dialect):
        if dialect.find(words).stop_reason is StopReason.INVENTED_OUTPUT:
            is_whole = dialect.stored_output.search(words) is not None
            why = "an output without a program before it" if is_whole else f"{mark} is opened and not closed"
            raise DataError(f"{where}: {why}: expected programs, each with its output right behind it or with none")
        yield _Piece(words, False)
        if output is not None:
            yield _Piece(output, True)


def _turns(pieces: list[_Piece], row: Row, dialect: Dialect) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Turns and the outputs between them; a turn ends with its closed program, blanks before an output go."""
    turns: list[str] = [""]
    outputs: list[str] = []
    for piece in pieces:
        if not piece.is_output:
            turns[-1] += piece.text
            continue
        *calls, behind = _calls(turns[-1], dialect)
        if not calls or behind.strip():
            raise DataError(f"{row.where}: an output without a program before it: expected a program right before it")
        turns[-1] = "".join(calls)
        outputs.append(piece.text)
        turns.append("")
    cut = [_calls(turn, dialect) for turn in turns]
    cut[-1][-1] = cut[-1][-1].strip()
    if not cut[-1][-1]:
        raise DataError(
            f"{row.where}: the conversation ends with a program or its output: expected an answer behind it"
        )
    if outputs and (len(cut[-1]) > 1 or any(len(parts) != 2 for parts in cut[:-1])):
        raise DataError(f"{row.where}: some programs have an output and some have none: give all of them or none")
    # Without outputs all stands in one turn: its programs are still to be run.
    said = [parts[0] for parts in cut] if outputs else [*(part.lstrip() for part in cut[0][:-1]), cut[0][-1]]
    return tuple(said), tuple(outputs)


def _calls(text: str, dialect: Dialect) -> list[str]:
    """The text cut behind every call; what is left behind the last one may be empty."""
    return [words for words, _ in exchange(text, dialect)]
