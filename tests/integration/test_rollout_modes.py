"""The ways in which a step's rollouts end: without lag all are one, and each goes on bit for bit after kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from agentmath.rollout.recorder import read_trajectories
from agentmath.telemetry.events import read_metrics
from agentmath.telemetry.run_dir import trajectory_files

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"
SHORT = ("--sft.steps", "20", "--training.steps", "4")
CLOCKS = ("time_seconds", "tokens_per_second", "seconds")
Start = Callable[..., subprocess.Popen[str]]
Finish = Callable[[subprocess.Popen[str]], str]

SYNCHRONOUS = ("--rollout.mode", "batch")
LAG_ZERO = {
    "segments": ("--rollout.mode", "segments", "--rollout.segment_sampled_tokens", "0"),
    "quota": ("--rollout.mode", "quota", "--rollout.over_submission", "1"),
    "async": ("--rollout.mode", "async", "--rollout.max_staleness", "0"),
}
LAGGING = {
    "segments": ("--rollout.mode", "segments", "--rollout.segment_sampled_tokens", "9", "--rollout.max_segments", "3"),
    "quota": ("--rollout.mode", "quota", "--rollout.over_submission", "2"),
    "async": ("--rollout.mode", "async", "--rollout.max_running_context_tokens", "600"),
}
"""What is carried over from step to step."""


def numbers(run: Path) -> list[dict[str, object]]:
    """Metrics of a run without what depends on the machine's speed."""
    events = read_metrics(run / "metrics.jsonl")
    return [{name: value for name, value in event.items() if not name.startswith(CLOCKS)} for event in events]


def trained(run: Path) -> list[tuple[int, int, int, str]]:
    """(step, ordinal, sample, text of turns) of every trajectory that was recorded."""
    rows = [(step, row) for step, file in trajectory_files(run) for row in read_trajectories(file)]
    return [(step, r["ordinal"], r["sample_index"], json.dumps(r["turn_texts"])) for step, r in rows]


def weights_are_equal(one: Path, other: Path) -> bool:
    a, b = (load_file(run / "model" / "model.safetensors") for run in (one, other))
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


def lags(run: Path) -> set[int]:
    """Optimiser steps between the pass of its oldest token and the step that trained on it."""
    rows = [(step, row) for step, file in trajectory_files(run) for row in read_trajectories(file)]
    return {step - 1 - int(min(v for v in row["versions"] if v >= 0)) for step, row in rows}


def test_without_lag_every_mode_gives_the_synchronous_numbers(tmp_path: Path, start: Start, finish: Finish):
    modes = {"batch": SYNCHRONOUS, **LAG_ZERO}
    processes = {
        name: start("rl", RECIPE, *SHORT, *words, "--output-dir", tmp_path / name) for name, words in modes.items()
    }
    for process in processes.values():
        finish(process)
    expected = tmp_path / "batch" / "tiny-0"
    assert lags(expected) == {0}
    for name in LAG_ZERO:
        found = tmp_path / name / "tiny-0"
        assert numbers(found) == numbers(expected), name
        assert trained(found) == trained(expected), name
        assert weights_are_equal(found, expected), name


@pytest.mark.slow
@pytest.mark.parametrize("mode", LAGGING)
def test_a_killed_run_trains_on_the_same_and_on_nothing_twice(mode: str, tmp_path: Path, start: Start, finish: Finish):
    words = ("rl", RECIPE, *LAGGING[mode], "--rollout.max_staleness", "2", "--sft.steps", "20")
    words = (*words, "--training.checkpoint_every_steps", "1")
    whole, killed = tmp_path / "whole" / "tiny-0", tmp_path / "killed" / "tiny-0"
    finish(start(*words, "--output-dir", tmp_path / "whole"))
    assert max(lags(whole)) in (1, 2), "nothing was carried over"
    carried = [
        e["groups_in_flight"] + e["groups_ready"] for e in read_metrics(whole / "metrics.jsonl") if e["kind"] == "rl"
    ]
    assert max(carried) > 0
    process = start(*words, "--output-dir", tmp_path / "killed")
    deadline = time.monotonic() + 200
    while not (killed / "metrics.jsonl").exists() or sum(e["kind"] == "rl" for e in numbers(killed)) < 3:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finish(start("rl", "--resume", killed))
    names = [(ordinal, sample) for _, ordinal, sample, _ in trained(killed)]
    assert len(names) == len(set(names)) > 0
    assert trained(killed) == trained(whole)
    assert numbers(killed) == numbers(whole)
    assert weights_are_equal(killed, whole)
