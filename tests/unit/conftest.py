"""Real data sets, where a machine has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def real_file() -> Callable[[str], Path]:
    """Path of a real data file; the test skips where it is absent."""

    def path(name: str) -> Path:
        folder = Path(os.environ.get("AGENTMATH_TEST_DATA", ROOT.parent / "shared/data"))
        if not (folder / name).exists():
            pytest.skip(f"{name} is not in {folder}: set AGENTMATH_TEST_DATA to a folder that has it")
        return folder / name

    return path
