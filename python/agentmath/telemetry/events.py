"""The lines of metrics.jsonl: reading them, and finding where a resume goes on.

One line is one event, {"kind": "sft" | "rl" | "eval", "step": n, "time_seconds": t, NAME: VALUE, ...}. Steps of sft and
of rl are counted apart; an evaluation carries the number of rl steps made before it. Lines stand in the order in which
things happened, so what came after some step is always the file's tail. A number that was not finite is null, and
"nonfinite" names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from agentmath.core.errors import DataError

Kind = Literal["sft", "rl", "eval"]
Stage = Literal["sft", "rl"]
Event = dict[str, Any]


def read_metrics(path: Path) -> list[Event]:
    """All events of a metrics file, in order; a last line that a crash has torn is left out.

    Raises DataError for a line in the middle that is no event.
    """
    return [event for _, event in scan(path)]


def num_bytes_until(path: Path, step: int, *, stage: Stage, num_evaluations: int | None = None) -> int:
    """Length of the part of the file that ends with `step` of `stage`.

    Evaluations that follow that step directly belong to it, up to num_evaluations events of that kind in the whole
    file; None sets no bound.
    """
    kept = 0
    seen = 0
    for end, event in scan(path):
        kind = event["kind"]
        if kind == "eval":
            seen += 1
            if stage == "rl" and event["step"] > step:
                break
            if num_evaluations is None or seen <= num_evaluations:
                kept = end
            continue
        later_stage = stage == "sft" and kind == "rl"
        if later_stage or (kind == stage and event["step"] > step):
            break
        kept = end
    return kept


def scan(path: Path) -> Iterator[tuple[int, Event]]:
    """(offset behind the line, event) of every whole line. Raises DataError for a whole line that is no event."""
    offset = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield offset, _parse(line, path, number)


def _parse(line: bytes, path: Path, number: int) -> Event:
    try:
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event["kind"], str) and isinstance(event["step"], int):
            return event
    except (ValueError, KeyError):
        pass
    raise DataError(
        f"{path}, line {number}, is not an event of a run: {line[:60]!r}. "
        "Remove the line, or restore the file from a copy."
    )
