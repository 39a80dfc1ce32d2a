"""One sandbox for all rows of a module."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentmath.config.sandbox import SandboxSection
from agentmath.data.files import Row
from agentmath.orchestration.replay import Played, play, read_play
from agentmath.sandbox.local import limits_of, open_sandbox

Replay = Callable[[list[dict[str, Any]]], list[Played]]


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    """Plays rows in one real sandbox, one after another."""
    section = SandboxSection(num_workers=1)
    with asyncio.Runner() as runner:
        sandbox = runner.run(open_sandbox(section))

        async def all_of(rows: list[dict[str, Any]]) -> list[Played]:
            wanted = [read_play(Row(cells, f"rows, line {n}", n)) for n, cells in enumerate(rows, start=1)]
            return [await play(each, sandbox, limits_of(section)) for each in wanted]

        try:
            yield lambda rows: runner.run(all_of(rows))
        finally:
            runner.run(sandbox.close())
