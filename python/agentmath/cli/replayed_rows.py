"""Rows of completions in, what became of them out: in order, a bounded number at a time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentmath.config.sandbox import SandboxSection
from agentmath.core.interfaces import Sandbox
from agentmath.core.types import Limits
from agentmath.data.files import Row, RowError, scan_rows
from agentmath.orchestration.replay import Played, play, read_play
from agentmath.sandbox.local import limits_of, open_sandbox
from agentmath.telemetry.quiet_stream import QuietStream

ROWS_IN_FLIGHT = 16
_COMPARED = ("n_code_blocks", "executed", "truncated", "final_answer", "format_ok", "stop_reason")


class Outcome(NamedTuple):
    """A row and what became of it."""

    row: Row | RowError
    played: Played | RowError


@dataclass(slots=True)
class Counts:
    """What the summary says."""

    rows: int = 0
    bad_rows: int = 0
    programs: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    stop_reasons: Counter[str] = field(default_factory=Counter[str])
    compared: int = 0
    agreeing: int = 0

    def add(self, line: dict[str, Any]) -> None:
        """Count a line that is printed."""
        self.rows += 1
        self.bad_rows += "stop_reason" not in line
        self.programs += line.get("n_code_blocks", 0)
        self.faults.update(set(line.get("faults", ())))
        self.stop_reasons.update([line["stop_reason"]] if "stop_reason" in line else [])
        self.compared += "agrees" in line
        self.agreeing += line.get("agrees", False)

    def as_json(self, seconds: float) -> dict[str, Any]:
        """The summary as one object."""
        counts = {"rows": self.rows, "bad_rows": self.bad_rows, "programs": self.programs}
        named = {"stop_reasons": dict(self.stop_reasons), "faults": dict(self.faults)}
        checked = {"compared": self.compared, "agreeing": self.agreeing}
        return counts | named | checked | {"seconds": round(seconds, 3)}

    def words(self, seconds: float) -> str:
        """The summary for a person."""
        faults = ", ".join(f"{count} {name}" for name, count in self.faults.most_common()) or "none"
        checked = f"; {self.agreeing} of {self.compared} agree with what is expected" if self.compared else ""
        return (
            f"{self.rows} rows in {seconds:.1f} s, {self.bad_rows} of them bad; {self.programs} programs run; "
            f"faults of form: {faults}{checked}"
        )


def run(file: str, *, check: bool, as_json: bool) -> bool:
    """Play the rows of a file; lines go to stdout, the summary to stderr. False when a checked row differs."""
    return asyncio.run(_run(file, check=check, as_json=as_json))


async def _run(file: str, *, check: bool, as_json: bool) -> bool:
    section = SandboxSection()
    counts, begun = Counts(), time.monotonic()
    rows = scan_rows(file)
    first = next(rows)  # a file that cannot be read is said before processes are started
    sandbox = await open_sandbox(section)
    try:
        async with aclosing(outcomes(_with(first, rows), sandbox, limits_of(section))) as results:
            async for outcome in results:
                line = line_of(outcome, check=check)
                counts.add(line)
                print(json.dumps(line), flush=True)
    except BrokenPipeError:
        # Nobody reads on. What Python still holds of the stream would fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    finally:
        await sandbox.close()
    seconds = time.monotonic() - begun
    QuietStream(sys.stderr).write_line(json.dumps(counts.as_json(seconds)) if as_json else counts.words(seconds))
    return counts.agreeing == counts.compared


def _with(first: Row | RowError, rest: Iterable[Row | RowError]) -> Iterable[Row | RowError]:
    yield first
    yield from rest


async def outcomes(rows: Iterable[Row | RowError], sandbox: Sandbox, limits: Limits) -> AsyncGenerator[Outcome, None]:
    """Play rows, ROWS_IN_FLIGHT at a time; results come in the order of the rows."""
    waiting: deque[asyncio.Task[Outcome]] = deque()
    try:
        for row in rows:
            waiting.append(asyncio.create_task(_outcome(row, sandbox, limits)))
            if len(waiting) == ROWS_IN_FLIGHT:
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _outcome(row: Row | RowError, sandbox: Sandbox, limits: Limits) -> Outcome:
    if isinstance(row, RowError):
        return Outcome(row, row)
    try:
        return Outcome(row, await play(read_play(row), sandbox, limits))
    except RowError as error:
        return Outcome(row, error)


def line_of(outcome: Outcome, *, check: bool) -> dict[str, Any]:
    """What is printed for a row."""
    row, played = outcome
    cells = row.cells if isinstance(row, Row) else {}
    line: dict[str, Any] = {"id": cells.get("id", row.number)}
    if isinstance(played, RowError):
        return line | {"error": str(played)}
    line |= played.as_json()
    expected = cells.get("expected")
    if check and isinstance(expected, dict):
        differs = differences(played, expected)
        line |= {"agrees": not differs, "differs": differs}
    return line


def differences(played: Played, expected: dict[str, Any]) -> list[str]:
    """Keys of `expected` that do not hold; none when all hold, or all of one of its also_ok with the rest as it is.

    An expected output is compared when it is empty or ends a line; others describe what is to be seen. What stands in
    never_in_kept_text may not be in the model text that counts.
    """
    others = expected.get("also_ok")
    forms = [expected, *(expected | other for other in others if isinstance(other, dict))] if others else [expected]
    found = [_differs(played, form) for form in forms]
    return found[0] if all(found) else []


def _differs(played: Played, expected: dict[str, Any]) -> list[str]:
    line = played.as_json()
    differs = [key for key in _COMPARED if key in expected and line[key] != expected[key]]
    outputs = expected.get("outputs")
    if isinstance(outputs, list) and not _same_outputs(played.outputs, outputs):
        differs.append("outputs")
    if any(words in played.kept_text for words in expected.get("never_in_kept_text", ())):
        differs.append("never_in_kept_text")
    return differs


def _same_outputs(outputs: tuple[str, ...], expected: list[Any]) -> bool:
    fixed = [text == "" or (isinstance(text, str) and text.endswith("\n")) for text in expected]
    pairs = zip(outputs, expected, fixed, strict=False)
    return len(outputs) == len(expected) and all(mine == other for mine, other, is_fixed in pairs if is_fixed)
