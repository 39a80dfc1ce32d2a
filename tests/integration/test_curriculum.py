"""Budgets that grow in the course of a run, and a run that goes on in the stage it had reached."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentmath.rollout.recorder import read_trajectories
from agentmath.telemetry.events import Event, read_metrics
from agentmath.telemetry.run_dir import trajectory_files

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"
WORDS = (
    *("rl", RECIPE, "--sft.steps", "20", "--training.steps", "5", "--training.checkpoint_every_steps", "1"),
    *("--curriculum.max_sampled_tokens", "[12, 36]", "--curriculum.window_steps", "2"),
)
Start = Callable[..., subprocess.Popen[str]]
Finish = Callable[[subprocess.Popen[str]], str]


def steps(run: Path) -> list[Event]:
    return [e for e in read_metrics(run / "metrics.jsonl") if e["kind"] == "rl"]


def longest(run: Path) -> list[int]:
    """Sampled tokens of the longest trajectory of each step."""
    return [max(r["num_sampled_tokens"] for r in read_trajectories(f)) for _, f in trajectory_files(run)]


@pytest.mark.slow
def test_budgets_grow_and_a_killed_run_goes_on_in_its_stage(tmp_path: Path, start: Start, finish: Finish):
    printed = finish(start(*WORDS, "--output-dir", tmp_path / "whole"))
    whole = tmp_path / "whole" / "tiny-0"
    stages = [e["budget_stage"] for e in steps(whole)]
    assert stages == sorted(stages)
    assert (stages[0], stages[-1]) == (0.0, 1.0)
    first = stages.index(1.0)
    assert sum(e["truncated"] for e in steps(whole)[first - 2 : first]) / 2 > 0.1
    assert max(longest(whole)[:first]) <= 12 < max(longest(whole)[first:])
    assert "stage 2 of 2: max_sampled_tokens 36" in printed

    process = start(*WORDS, "--output-dir", tmp_path / "killed")
    killed = tmp_path / "killed" / "tiny-0"
    deadline = time.monotonic() + 200
    while not (killed / "checkpoints" / "rl").exists() or len(steps(killed)) <= first:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finish(start("rl", "--resume", killed))
    assert [e["budget_stage"] for e in steps(killed)] == stages
    assert longest(killed) == longest(whole)
