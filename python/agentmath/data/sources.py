"""Rows become tasks: each kind of source has one reader, which knows the columns and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError, DataError
from agentmath.core.types import Task
from agentmath.data.expressions import Unconvertible, intermediate_results, num_operations, parse_arithmetic
from agentmath.data.files import Row, read_rows
from agentmath.data.generators import arithmetic, two_step
from agentmath.data.worked_solutions import FINAL, MARK

GENERATORS: Mapping[str, Callable[[int, int, int], list[Task]]] = {"arithmetic": arithmetic, "two_step": two_step}

QUESTIONS = ("question", "problem", "prompt")
ANSWERS = ("answer", "label", "ground_truth")


def load_source(section: DataSection, *, seed: int) -> list[Task]:
    """All tasks of one source in file order, repeats included; at most section.max_tasks of them.

    Raises DataError for what is wrong with a file, ConfigError for what is wrong with the section.
    """
    if section.kind in GENERATORS:
        if section.max_tasks == 0:
            raise ConfigError(f"data.{section.name}: a generator must know how many problems to make: set max_tasks")
        tasks = GENERATORS[section.kind](section.max_tasks, section.digits, seed)
        tasks = [replace(task, source=section.name) for task in tasks]
    else:
        if not section.path:
            raise ConfigError(f"data.{section.name} ({section.kind}) has no file: give --data.{section.name}.path FILE")
        tasks = list(_file_tasks(section))
    if not tasks:
        raise DataError(
            f"data.{section.name}: no row of {section.path} has one of the numbers of steps that "
            f"steps = {list(section.steps)} keeps"
        )
    return tasks


def _file_tasks(section: DataSection) -> Iterator[Task]:
    reader = _READERS[section.kind]
    seen: set[str] = set()
    tasks = (_identified(reader(row), row, section.name, seen) for row in read_rows(section.path))
    if section.steps:
        tasks = (task for task in tasks if num_steps(task) in section.steps)
    return islice(tasks, section.max_tasks or None)


def _identified(task: Task, row: Row, source: str, seen: set[str]) -> Task:
    """The task with an id that is unique in its source: the row's own, its number behind it where it is repeated."""
    key = row.find(("id",))
    own = str(row.cells[key] if key is not None and row.cells[key] is not None else "").strip()
    identity = own or f"{source}-{row.number}"
    if identity in seen:
        identity = f"{identity}#{row.number}"
    seen.add(identity)
    return replace(task, id=identity, source=source)


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


def _read_gsm8k(row: Row) -> Task:
    """Ours: question, solution, answer. The original: question, and an answer that holds the solution too."""
    question = row.text(QUESTIONS, "question")
    if row.find(("solution",)) is not None:
        solution, answer = row.text(("solution",), "worked solution"), row.text(ANSWERS, "answer")
    else:
        solution = row.text(ANSWERS, "worked solution with its answer")
        answer = solution
    final = FINAL.search(solution)
    if final is None and answer is solution:
        raise DataError(f"{row.where}: expected the answer behind '#### ' at the end of the solution, found none")
    if final is not None and answer is solution:
        answer = final.group(1).strip()
    results = tuple(mark.rpartition("=")[2].strip() for mark in MARK.findall(solution))
    return Task(id="", question=question, answer=answer, intermediate=results, solution=solution)


def _read_svamp(row: Row) -> Task:
    """question, or body and the sentence that asks (ask; the original says Body and Question); equation; answer."""
    ask = ("ask",) if row.find(("ask",)) else ("question",)
    if row.find(("body",)) and (ask == ("question",) or not row.find(("question",))):
        story = row.text(("body",), "story")
        question = f"{story}{'' if story.endswith(('.', '?', '!', ',')) else '.'} {row.text(ask, 'question')}"
    else:
        question = row.text(("question",), "question (or the columns 'body' and 'ask')")
    equation = row.text(("equation",), "equation")
    try:
        results = intermediate_results(parse_arithmetic(equation))
    except Unconvertible as fault:
        raise DataError(
            f"{row.where}, column 'equation': expected arithmetic such as ( 8.0 - 3.0 ): {fault}"
        ) from fault
    answer = row.text(ANSWERS, "answer")
    return Task(id="", question=question, answer=answer, intermediate=results, solution=equation)


def _read_question_answer(row: Row) -> Task:
    key = row.find(QUESTIONS)
    question = row.cells[key] if key else None
    text = _last_user_message(question, row) if isinstance(question, list) else row.text(QUESTIONS, "question")
    solution = row.find(("solution",))
    worked = row.cells[solution] if solution else None
    return Task(
        id="",
        question=text,
        answer=_answer(row),
        difficulty=_difficulty(row),
        solution=worked if isinstance(worked, str) and worked.strip() else None,
    )


def _answer(row: Row) -> str:
    """The answer column, or the nested reward_model.ground_truth of trainers' parquet files."""
    nested = row.find(("reward_model",))
    if row.find(ANSWERS) is None and nested is not None and isinstance(row.cells[nested], dict):
        return Row(row.cells[nested], f"{row.where}, column {nested!r}", row.number).text(ANSWERS, "answer")
    if row.find(ANSWERS) is None:
        raise DataError(
            f"{row.where}: a dataset without answers: expected a column {' or '.join(map(repr, ANSWERS))}, "
            f"found {', '.join(map(repr, row.cells)) or 'none'}"
        )
    return row.text(ANSWERS, "answer")


def _last_user_message(messages: list[Any], row: Row) -> str:
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str):
            return re.sub(r"\s+\Z", "", message["content"])
    raise DataError(f"{row.where}: expected a prompt with a message of role 'user' and text content, found none")


def _difficulty(row: Row) -> float | None:
    key = row.find(("difficulty",))
    value = row.cells[key] if key else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return None


_READERS: Mapping[str, Callable[[Row], Task]] = {
    "gsm8k": _read_gsm8k,
    "svamp": _read_svamp,
    "question_answer": _read_question_answer,
}
