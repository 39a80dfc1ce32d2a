"""Trajectories that are stored as one text: taken apart into what the model said and the outputs between."""

from __future__ import annotations

from typing import NamedTuple

from agentmath.formats.dialect import Dialect

_MOST_CALLS = 10_000
"""A text with more calls is not taken apart behind them."""


class Said(NamedTuple):
    """What the model said up to a call or to the end, and the output that is stored behind it."""

    text: str
    output: str | None
    """None where none is stored."""


def exchange(text: str, dialect: Dialect) -> list[Said]:
    """A stored trajectory in order, cut behind every call; the last entry may be empty text."""
    found: list[Said] = []
    position = 0
    while len(found) < _MOST_CALLS:
        rest = text[position:]
        reading = dialect.read(rest, in_think=False)
        if reading.source is None and reading.notice is None:
            break
        stored = dialect.stored_output.match(rest, reading.kept)
        found.append(Said(rest[: reading.kept], stored.group(1).strip("\r\n") if stored else None))
        position += stored.end() if stored else reading.kept
    found.append(Said(text[position:], None))
    return found


def generations(text: str, dialect: Dialect) -> list[str]:
    """What the model said in a stored trajectory, one entry a generation; stored outputs are left out."""
    said = [entry.text for entry in exchange(text, dialect)]
    return said[:-1] if len(said) > 1 and not said[-1].strip() else said
