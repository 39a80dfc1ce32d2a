r"""A row becomes a task: one reader for the columns that people's files have.

    question    question, problem or prompt; a prompt may be a list of messages, whose last user message is taken.
                SVAMP's body and what it asks are put together.
    answer      answer, label, ground_truth, final_answer or expected_answer; else reward_model.ground_truth; else the
                last \boxed{} of the solution. An answer that is a worked solution (#### 72, or a box) gives both.
    solution    solution, or the answer's; else the equation. Its marks <<48/2=24>> are intermediate results.
    difficulty  difficulty or level, a number or one behind words: "Level 5".
    subject     subject or type

Columns go by these names without regard to case. kind gsm8k insists on worked solutions, kind svamp on equations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agentmath.config.data import DataSection
from agentmath.core.types import Task
from agentmath.data.expressions import Unconvertible, intermediate_results, num_operations, parse_arithmetic
from agentmath.data.files import Fault, Row
from agentmath.data.instructions import without_instructions
from agentmath.data.worked_solutions import FINAL, MARK
from agentmath.formats.answer import MAX_ANSWER_CHARS, boxed_answer

QUESTIONS = ("question", "problem", "prompt")
ANSWERS = ("answer", "label", "ground_truth", "final_answer", "expected_answer")

_SOLUTIONS = ("solution",)
_EQUATIONS = ("equation",)
_DIFFICULTIES = ("difficulty", "level")
_IDS = ("id", "unique_id")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(slots=True)
class Read:
    """A task as its row has it; ids may be repeated."""

    task: Task
    difficulty: str
    """As the row states it; empty where it does not."""
    has_instructions: bool
    """Whether sentences on how to answer were cut from the question."""


def read_task(row: Row, section: DataSection) -> Read:
    """The task of a row. Raises RowError that names the place, the column and what was expected."""
    asked = _question(row, section)
    question = without_instructions(asked) if section.instructions == "cut" else asked
    if len(question) > section.max_question_chars:
        raise row.error(
            Fault.TOO_LONG,
            f": a question of {len(question):,} characters: at most max_question_chars = {section.max_question_chars}",
        )
    answer, worked = _answer(row, section)
    if len(answer) > MAX_ANSWER_CHARS:
        raise row.error(Fault.TOO_LONG, f": an answer of {len(answer):,} characters: {MAX_ANSWER_CHARS:,} are read")
    solution = _optional_text(row, _SOLUTIONS) or worked
    if section.kind == "gsm8k" and solution is None:
        raise row.error(Fault.NO_ANSWER, ": expected the answer behind '#### ' at the end of the solution, found none")
    equation = _equation(row, section)
    results: tuple[str, ...] = ()
    if solution is not None and "<<" in solution:
        results = tuple(mark.rpartition("=")[2].strip() for mark in MARK.findall(solution))
    if solution is None and equation is not None:
        solution, results = equation
    difficulty = _difficulty(row, section)
    return Read(
        Task(
            id=_identity(row) or f"{section.name}-{row.number}",
            question=question,
            answer=answer,
            source=section.name,
            difficulty=_number(difficulty),
            intermediate=results,
            solution=solution,
            subject=_optional_text(row, ("subject", "type")) or "",
        ),
        difficulty,
        question != asked,
    )


def num_steps(task: Task) -> int | None:
    """Calculations in the task's solution: marks of a worked one, operations of an expression; None without either."""
    if task.solution is None:
        return None
    marks = len(MARK.findall(task.solution))
    if marks or FINAL.search(task.solution):
        return marks
    try:
        return num_operations(parse_arithmetic(task.solution))
    except Unconvertible:
        return None


def _question(row: Row, section: DataSection) -> str:
    place, names = _place(row, section.question_column, QUESTIONS)
    cell = place.value(names)
    if isinstance(cell, list):
        return _last_user_message(cell, place)
    is_split = row.value(("body",)) is not None and not section.question_column
    asks = ("ask",) if row.find(("ask",)) is not None else ("question",)
    if is_split and (asks == ("question",) or row.value(("question",)) is None):
        story = row.text(("body",), "story")
        return f"{story}{'' if story.endswith(('.', '?', '!', ',')) else '.'} {row.text(asks, 'question')}"
    return place.text(names, "question")


def _last_user_message(messages: list[Any], row: Row) -> str:
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            return Row(message, f"{row.where}, prompt", row.number).text(("content",), "message")
    raise row.error(Fault.EMPTY, ": expected a prompt with a message of role 'user' and text content, found none")


def _answer(row: Row, section: DataSection) -> tuple[str, str | None]:
    """The answer, and the worked solution that it stood in, if it did."""
    place, names = _place(row, section.answer_column, ANSWERS)
    if place.find(names) is None and not section.answer_column:
        nested = row.value(("reward_model",))
        if isinstance(nested, dict):
            place = Row(nested, f"{row.where}, column 'reward_model'", row.number)
        elif section.kind != "gsm8k" and (solution := _optional_text(row, _SOLUTIONS)) is not None:
            return _boxed(row, solution), solution
    text = place.text(names, "answer")
    if "####" in text and (finals := FINAL.findall(text)):
        return finals[-1].strip(), text
    if section.kind == "gsm8k" and row.find(_SOLUTIONS) is None:
        raise row.error(Fault.NO_ANSWER, ": expected the answer behind '#### ' at the end of the solution, found none")
    box = boxed_answer(text) if "box" in text else None
    return (text, None) if box is None else (box, text)


def _boxed(row: Row, solution: str) -> str:
    finals: list[str] = FINAL.findall(solution)
    answer = boxed_answer(solution) or (finals[-1].strip() if finals else None)
    if answer is None:
        raise row.error(
            Fault.NO_ANSWER,
            f": expected a column {' or '.join(map(repr, ANSWERS))}, or a \\boxed{{answer}} in the solution: found "
            f"neither",
        )
    return answer


def _equation(row: Row, section: DataSection) -> tuple[str, tuple[str, ...]] | None:
    """An equation and its results in order; only kind svamp insists on one that is arithmetic."""
    is_needed = section.kind == "svamp"
    text = row.text(_EQUATIONS, "equation") if is_needed else _optional_text(row, _EQUATIONS)
    if text is None:
        return None
    try:
        return text, intermediate_results(parse_arithmetic(text))
    except Unconvertible as fault:
        if not is_needed:
            return None
        words = f", column 'equation': expected arithmetic such as ( 8.0 - 3.0 ): {fault}"
        raise row.error(Fault.WRONG_TYPE, words) from fault


def _difficulty(row: Row, section: DataSection) -> str:
    place, names = _place(row, section.difficulty_column, _DIFFICULTIES)
    value = place.value(names)
    is_needed = bool(section.difficulty or section.levels or section.difficulty_column)
    if value is None and (not is_needed or place.find(names) is not None):
        return ""
    if isinstance(value, list | dict | bool) and not is_needed:
        return ""
    return place.text(names, "difficulty")


def _number(difficulty: str) -> float | None:
    """The number in words such as "Level 5"; None where there is none, or several."""
    numbers = _NUMBER.findall(difficulty) if len(difficulty) <= 40 else []
    return float(numbers[0]) if len(numbers) == 1 else None


def _place(row: Row, column: str, names: tuple[str, ...]) -> tuple[Row, tuple[str, ...]]:
    """Where a column is looked for: the names, unless one is given; "extra_info.question" stands within another."""
    if not column:
        return row, names
    *outer, last = [column] if row.find((column.casefold(),)) else column.split(".")
    for name in outer:
        inner = row.cell((name.casefold(),), "column")
        if not isinstance(inner, dict):
            raise row.error(Fault.WRONG_TYPE, f", column {name!r}: expected an object that holds {column!r}")
        row = Row(inner, f"{row.where}, column {name!r}", row.number)
    return row, (last.casefold(),)


def _optional_text(row: Row, names: tuple[str, ...]) -> str | None:
    value = row.value(names)
    return value.strip() or None if isinstance(value, str) else None


def _identity(row: Row) -> str:
    value = row.value(_IDS)
    return str(value).strip() if isinstance(value, str | int) else ""
