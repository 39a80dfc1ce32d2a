"""Help is instant: what is slow to import is imported by the command that needs it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

HEAVY = {
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "tokenizers",
    "safetensors",
    "tensorboard",
    "rich",
}
HELP = "from agentmath.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
MODULES = "\nimport json, sys; print(json.dumps(sorted(m.partition('.')[0] for m in sys.modules)))"


def loaded(code: str) -> set[str]:
    command = [sys.executable, "-c", code + MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_nothing_heavy() -> None:
    assert loaded(HELP) & (HEAVY | {"pydantic", "agentmath_kernels"}) == set()


def test_config_loads_without_numpy_and_torch() -> None:
    assert loaded("import agentmath.config.load") & HEAVY == set()


def test_core_loads_numpy_only() -> None:
    code = "import agentmath.core.types, agentmath.core.errors, agentmath.core.interfaces"
    assert loaded(code) & HEAVY == {"numpy"}


def test_the_time_of_help_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    seconds: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", HELP], capture_output=True, timeout=120, check=True)
        seconds.append(time.perf_counter() - start)
    with capsys.disabled():
        print(f"\nagentmath --help: {min(seconds) * 1000:.0f} ms, best of {len(seconds)}")
