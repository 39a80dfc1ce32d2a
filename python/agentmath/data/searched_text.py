"""What of a row is searched for evaluation questions: its question, and further columns if they are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agentmath.data.files import Fault, Row
from agentmath.data.schemas import ANSWERS, QUESTIONS
from agentmath.data.worked_solutions import FINAL
from agentmath.formats.answer import boxed_answer

CONVERSATIONS = ("messages", "conversations", "conversation")
ASKED = (*QUESTIONS, *CONVERSATIONS)
_USERS = ("user", "human")


def question_of(row: Row) -> str:
    """The question of a row: text, what the user says in a conversation, or a story and what it asks.

    Raises RowError where there is none.
    """
    cell = row.value(ASKED)
    if isinstance(cell, list) and not (len(cell) == 1 and isinstance(cell[0], str)):
        said = "\n\n".join(text for turn in cell for text in _said_by_user(turn))
        if not said.strip():
            words = f", column {row.find(ASKED)!r}: expected a conversation in which a user says something"
            raise row.error(Fault.EMPTY, words)
        return said
    question = row.text(ASKED, "question")
    return f"{row.text(('body',), 'story')} {question}" if row.find(("body",)) else question


def column_texts(row: Row, columns: Sequence[str]) -> dict[str, str]:
    """All text in each of the named columns that the row has, without regard to case."""
    keys = {column: row.find((column.casefold(),)) for column in columns}
    return {column: "\n\n".join(_strings(row.cells[key])) for column, key in keys.items() if key is not None}


def answer_of(row: Row) -> str | None:
    """The gold answer, as short as it stands in the row; None where there is none."""
    cell, nested = row.value(ANSWERS), row.value(("reward_model",))
    if cell is None and isinstance(nested, dict):
        cell = nested.get("ground_truth")
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    text = str(cell).strip()
    final = FINAL.search(text)
    return (final.group(1).strip() if final else boxed_answer(text) or text) or None


def id_of(row: Row) -> str:
    """The row's own id, else where it stands."""
    cell = row.value(("id", "unique_id"))
    return str(cell).strip() if cell not in (None, "") else row.where


def _said_by_user(turn: Any) -> Iterator[str]:
    if isinstance(turn, dict) and turn.get("role", turn.get("from")) in _USERS:
        yield from _strings(turn.get("content", turn.get("value")))


def _strings(cell: Any) -> Iterator[str]:
    """All texts in a cell, however it is nested."""
    remaining = [cell]
    while remaining:
        value = remaining.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            remaining.extend(reversed(value))
        elif isinstance(value, dict):
            remaining.extend(reversed(value.values()))
