"""Lets the tests of this folder import what stands beside them, and gives each test file one sandbox to attack."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from canaries import Canaries
from census import Census, adopt_orphans

from agentmath.config.sandbox import SandboxSection
from agentmath.sandbox.local import LocalSandbox, open_sandbox


@pytest.fixture(scope="session", autouse=True)
def orphans_come_to_us() -> None:
    adopt_orphans()


@pytest.fixture(scope="module")
def canaries() -> Iterator[Canaries]:
    with Canaries() as planted:
        yield planted


@pytest.fixture(scope="module")
def sandbox(canaries: Canaries) -> Iterator[LocalSandbox]:
    """Nothing of it may be left when the last test of the file is over."""
    before = Census.take()
    opened = asyncio.run(open_sandbox(SandboxSection(num_workers=4)))
    yield opened
    asyncio.run(opened.close())
    assert before.leftovers() == {}
    assert canaries.touched() == []
