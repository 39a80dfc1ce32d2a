"""A whole run whose engine is two processes: it trains, its engines are proved, and nothing of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmath.telemetry.events import read_metrics

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for what the program leaves, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="am-", dir="/tmp") as folder:
        yield Path(folder)


def run(output: Path, temporary: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-c", "from agentmath.cli.main import main; main()", "rl", str(RECIPE)),
            *("--run.output_dir", str(output), "--sft.steps", "80", "--training.steps", "4", *words),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)},
        check=False,
    )


@pytest.mark.parametrize("mode", ["segments", "async"])
def test_a_run_trains_over_engine_processes(tmp_path: Path, temporary: Path, mode: str):
    done = run(tmp_path, temporary, "--engine.replicas", "2", "--rollout.mode", mode)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [e for e in read_metrics(tmp_path / "tiny-0" / "metrics.jsonl") if e["kind"] == "rl"]
    assert len(steps) == 4
    assert all(e["parity_mean"] < 1e-5 and e["engine_restarts"] == 0 for e in steps)
    assert sum(e["trajectories"] for e in steps if "trajectories" in e) > 0
    assert [*temporary.glob("agentmath-*")] == []


def test_a_python_without_vllm_is_one_sentence(tmp_path: Path, temporary: Path):
    """The trainer's own environment has none."""
    done = run(tmp_path, temporary, "--engine.kind", "vllm")
    assert done.returncode == 5
    (line,) = done.stderr.strip().splitlines()[-1:]
    assert "engine 0 (vllm) cannot start: the Python of this engine has no vllm that can be imported" in line
    assert "engine.python = PATH" in line
    assert "Traceback" not in done.stderr + done.stdout


def test_settings_of_processes_without_processes_warn(tmp_path: Path, temporary: Path):
    done = run(tmp_path, temporary, "--engine.max_restarts", "1", "--dry-run")
    assert done.returncode == 0
    assert "engine.max_restarts has no effect: engine.replicas = 0 keeps the engine inside the trainer" in (
        " ".join((done.stdout + done.stderr).split())
    )
