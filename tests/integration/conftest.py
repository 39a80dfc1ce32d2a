"""Runs of the real command line in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"
COMMAND = [sys.executable, "-m", "agentmath"]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Start:
    """Start `agentmath WORDS...`; one thread, so that runs side by side do not disturb each other."""

    def begin(*words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    return begin


@pytest.fixture
def finish() -> Callable[[subprocess.Popen[str]], str]:
    """Wait for a process that must succeed; returns what it printed."""

    def wait(process: subprocess.Popen[str]) -> str:
        printed, _ = process.communicate(timeout=240)
        assert process.returncode == 0, printed
        return printed

    return wait
