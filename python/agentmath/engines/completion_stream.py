"""What an OpenAI-compatible server sends, as pieces of text and an end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from agentmath.formats.dialect import THINK_CLOSE, THINK_OPEN


class LostStream(Exception):
    """The server broke off, or said something that is no answer: the try may be repeated."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One event: text, and why the generation ended if it did."""

    text: str
    finish: str | None = None


async def read_events(lines: AsyncIterator[str]) -> AsyncIterator[Piece]:
    """Pieces of a stream of server-sent events. Raises LostStream when it ends without saying so, or is none."""
    thinks = False
    async for line in lines:
        if not line.startswith("data:"):
            continue
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            yield Piece(THINK_CLOSE if thinks else "", "stop")
            return
        choice = _choice(data)
        if choice is None:
            continue
        thought, text = texts_of(choice)
        finish = choice.get("finish_reason")
        if thought:
            text = ("" if thinks else THINK_OPEN) + thought + (THINK_CLOSE + text if text else "")
            thinks = not text.endswith(THINK_CLOSE) and THINK_CLOSE not in text
        elif thinks and (text or finish not in (None, "length")):
            text, thinks = THINK_CLOSE + text, False
        yield Piece(text, finish)
        if finish:
            return
    raise LostStream("the connection ended in mid-answer")


def read_whole(body: bytes) -> Piece:
    """The one piece of an answer that was not streamed. Raises LostStream for anything else."""
    choice = _choice(body.decode("utf-8", "replace"))
    if choice is None:
        raise LostStream("the answer holds no choice")
    thought, text = texts_of(choice)
    return Piece(
        f"{THINK_OPEN}{thought}{THINK_CLOSE}{text}" if thought else text, choice.get("finish_reason") or "stop"
    )


def texts_of(choice: dict[str, Any]) -> tuple[str, str]:
    """(thought, text) of a choice of either interface, streamed or not. A server with a parser of its own gives
    thoughts apart."""
    part = choice.get("delta") or choice.get("message")
    if part is None:
        return "", choice.get("text") or ""
    return part.get("reasoning_content") or part.get("reasoning") or "", part.get("content") or ""


def _choice(data: str) -> dict[str, Any] | None:
    try:
        event = json.loads(data)
    except ValueError as error:
        raise LostStream(f"the server sent {data[:80]!r}, which is no JSON") from error
    if not isinstance(event, dict) or event.get("error"):
        raise LostStream(f"the server sent an error in its answer: {data[:200]}")
    choices = event.get("choices")
    if not choices:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise LostStream(f"the server sent {data[:80]!r}, which is no answer")
    return choices[0]
