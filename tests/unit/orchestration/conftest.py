"""Real data, and one sandbox for all rows of a module."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmath.config.sandbox import SandboxSection
from agentmath.data.files import Row
from agentmath.orchestration.replay import Played, play, read_play
from agentmath.sandbox.local import limits_of, open_sandbox

ROOT = Path(__file__).parents[3]
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


@pytest.fixture
def real_file() -> Callable[[str], Path]:
    """Path of a real data file; the test skips where it is absent."""

    def path(name: str) -> Path:
        folder = Path(os.environ.get("AGENTMATH_TEST_DATA", ROOT.parent / "shared/data"))
        if not (folder / name).exists():
            pytest.skip(f"{name} is not in {folder}: set AGENTMATH_TEST_DATA to a folder that has it")
        return folder / name

    return path
