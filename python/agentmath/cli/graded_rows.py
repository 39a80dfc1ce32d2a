"""Rows of predictions in, verdicts out, as a stream: a file may be larger than the memory."""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast, get_args

from agentmath.config.grading import GradingSection
from agentmath.core.errors import DataError
from agentmath.rewards.answer import Verdict
from agentmath.rewards.extract import Form
from agentmath.rewards.grader import Grader, Question

MAX_ROW_BYTES = 16 << 20
"""A longer line is no row."""

_FORMS: tuple[Form, ...] = get_args(Form)
_SHOWN_CHARS = 60
_BAD_ROW = "row"
"""Rule of a line that is no row."""


class BadRow(Exception):
    """A line that is no row, in words."""


@dataclass(slots=True)
class Counts:
    """What the summary says."""

    verdicts: Counter[bool | None] = field(default_factory=Counter[bool | None])
    bad_rows: int = 0
    agreeing: int = 0
    compared: int = 0

    def add(self, row: dict[str, Any], verdict: Verdict) -> None:
        self.verdicts[verdict.match] += 1
        self.bad_rows += verdict.rule == _BAD_ROW
        if isinstance(row.get("match"), bool):
            self.compared += 1
            self.agreeing += row["match"] is verdict.match

    def summary(self, seconds: float) -> str:
        """One line for a person."""
        total, none = self.verdicts.total(), self.verdicts[None]
        speed = total / seconds if seconds else 0.0
        agree = f"; {self.agreeing} of {self.compared} agree with the row's match" if self.compared else ""
        return (
            f"{total} answers in {seconds:.1f} s ({speed:,.0f} answers/s): {self.verdicts[True]} right, "
            f"{self.verdicts[False]} wrong, {none} without a verdict ({self.bad_rows} bad rows, "
            f"{none - self.bad_rows} lost by the grader){agree}"
        )


def run(file: str, section: GradingSection) -> None:
    """Grade the rows of a file, - being standard input; verdicts go to stdout, the summary to stderr."""
    counts = Counts()
    begun = time.monotonic()
    with _open(file) as stream, Grader(section) as grader:
        try:
            for line in graded_lines(numbered_lines(stream, file), grader, counts):
                sys.stdout.write(line)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads on. What Python still holds of the stream would fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    print(counts.summary(time.monotonic() - begun), file=sys.stderr, flush=True)


def graded_lines(lines: Iterator[tuple[str, bytes]], grader: Grader, counts: Counts) -> Iterator[str]:
    """One JSON line for each (place, line), in order."""
    rows: deque[dict[str, Any]] = deque()

    def questions() -> Iterator[Question | Verdict]:
        for place, line in lines:
            row: dict[str, Any] = {}
            try:
                row = parse_row(line)
                question = _question(row)
            except BadRow as fault:
                question = Verdict(match=None, extracted=None, rule=_BAD_ROW, reason=f"{place}: {fault}")
            rows.append(row)
            yield question

    for verdict in grader.grade_many(questions()):
        row = rows.popleft()
        counts.add(row, verdict)
        said = {"id": row["id"]} if "id" in row else {}
        said |= {"match": verdict.match, "extracted": verdict.extracted, "rule": verdict.rule, "error": verdict.error}
        yield json.dumps(said) + "\n"


def parse_row(line: bytes) -> dict[str, Any]:
    """The object on a line. Raises BadRow."""
    if len(line) > MAX_ROW_BYTES:
        raise BadRow(f"the line is longer than {MAX_ROW_BYTES:,} bytes")
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise BadRow(f"byte {fault.start} is no UTF-8") from fault
    except (ValueError, RecursionError) as fault:
        shown = line[:_SHOWN_CHARS].decode("utf-8", "replace")
        raise BadRow(f'expected a JSON object with "gold" and "prediction", found {shown!r}') from fault
    if not isinstance(row, dict):
        raise BadRow(f'expected a JSON object with "gold" and "prediction", found a {type(row).__name__}')
    return cast("dict[str, Any]", row)


def _question(row: dict[str, Any]) -> Question:
    for key in ("gold", "prediction"):
        if key not in row:
            raise BadRow(f'"{key}" is missing; the keys are {", ".join(sorted(row)) or "none"}'[:400])
        if not isinstance(row[key], str):
            raise BadRow(f'"{key}" must be a text, found {json.dumps(row[key])[:_SHOWN_CHARS]}')
        try:
            row[key].encode()
        except UnicodeEncodeError as fault:
            raise BadRow(f'"{key}" holds half a character (a lone surrogate) at {fault.start}') from fault
    form = row.get("form", "answer")
    if form not in _FORMS:
        raise BadRow(f'"form" must be one of {", ".join(_FORMS)}, found {json.dumps(form)[:_SHOWN_CHARS]}')
    return Question(gold=row["gold"], prediction=row["prediction"], form=form)


def _open(file: str) -> IO[bytes]:
    if file == "-":
        return sys.stdin.buffer
    try:
        return cast("IO[bytes]", gzip.open(file)) if Path(file).suffix == ".gz" else open(file, "rb")
    except OSError as fault:
        raise DataError(
            f"{file} cannot be read: {fault.strerror}; give a JSONL file, or - for standard input"
        ) from fault


def numbered_lines(stream: IO[bytes], file: str) -> Iterator[tuple[str, bytes]]:
    """Where each line stands, and the line, of which no more is kept than a row may have; blank lines are left out."""
    name = "standard input" if file == "-" else file
    number = 0
    try:
        while line := stream.readline(MAX_ROW_BYTES + 1):
            number += 1
            rest = line
            while len(rest) > MAX_ROW_BYTES and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_ROW_BYTES + 1)
            if line.strip():
                yield f"{name}, line {number}", line
    except (OSError, EOFError, zlib.error) as fault:
        raise DataError(f"{name} cannot be read on after line {number}: {fault}") from fault
