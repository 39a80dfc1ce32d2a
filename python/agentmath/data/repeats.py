"""Questions that a source asks more than once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentmath.core.types import Task
from agentmath.data.wording import answer_value

_STOPS = re.compile(r"[.,;:!?'\"]+(?!\S)")
_OPENING_QUOTES = re.compile(r"(?<!\S)['\"]+")


@dataclass(slots=True, kw_only=True)
class Unrepeated:
    """Tasks that all ask something else, and how many rows were left out for it."""

    tasks: list[Task] = field(default_factory=list[Task])
    """In order, of repeated ones the first."""
    num_repeats: int = 0
    """Rows whose question stood before."""
    num_conflicting: int = 0
    """Rows of questions that stand there with different numbers as answers, all of them: which is right is unknown."""


def without_repeats(tasks: Iterable[Task], most: int = 0) -> Unrepeated:
    """Read tasks until `most` different ones are found, 0 for all. Memory grows with what is kept, not with repeats."""
    kept: dict[str, Task | None] = {}
    keys: dict[str, str] = {}
    found = Unrepeated()
    num_kept = 0
    for task in tasks:
        key = keys.get(task.question) or normalised_question(task.question)
        if key not in kept:
            kept[key] = task
            keys[task.question] = key
            num_kept += 1
            if num_kept == most:
                break
            continue
        earlier = kept[key]
        if earlier is None:
            found.num_conflicting += 1
        elif contradict(earlier.answer, task.answer):
            kept[key] = None
            num_kept -= 1
            found.num_conflicting += 2
        else:
            found.num_repeats += 1
    found.tasks = [task for task in kept.values() if task is not None]
    return found


def contradict(first: str, second: str) -> bool:
    """True when both answers are numbers, and different ones; what is no number may be another way to write it."""
    if first == second:
        return False
    values = answer_value(first), answer_value(second)
    return None not in values and values[0] != values[1]


def normalised_question(text: str) -> str:
    """Text without regard to case, blanks, and punctuation at the end of words; signs of arithmetic stay."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = _STOPS.sub(" ", text.casefold())
    if "'" in text or '"' in text:
        text = _OPENING_QUOTES.sub(" ", text)
    return " ".join(text.split())
