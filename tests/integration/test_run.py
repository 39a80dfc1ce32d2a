"""A whole run by the command line: what it leaves, and that it goes on bit for bit after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file

from agentmath.rollout.recorder import read_trajectories
from agentmath.telemetry.events import read_metrics
from agentmath.telemetry.run_dir import trajectory_files

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"
Start = Callable[..., subprocess.Popen[str]]
Finish = Callable[[subprocess.Popen[str]], str]
CLOCKS = ("time_seconds", "tokens_per_second", "seconds")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    command = ["rl", str(RECIPE), "--output-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-c", "from agentmath.cli.main import main; main()", *command],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"run: {folder / 'tiny-0'}"
    return folder / "tiny-0"


def without_clocks(path: Path) -> list[dict[str, object]]:
    """Metrics of a run without what depends on the machine's speed."""
    return [
        {name: value for name, value in event.items() if not name.startswith(CLOCKS)} for event in read_metrics(path)
    ]


def trained_tasks(run: Path) -> list[tuple[int, int, str]]:
    """(ordinal, sample, text of turns) of every trajectory that was recorded."""
    rows = [row for _, file in trajectory_files(run) for row in read_trajectories(file)]
    return [(r["ordinal"], r["sample_index"], json.dumps(r["turn_texts"])) for r in rows]


def test_a_run_leaves_what_it_promises(whole: Path):
    summary = json.loads((whole / "summary.json").read_text())
    promised = ("accuracy_before", "accuracy_after", "tool_use_before", "tool_use_after", "train_seconds")
    assert all(isinstance(summary[name], float) for name in promised)
    assert (summary["seed"], summary["steps"], summary["sft_steps"]) == (0, 6, 100)
    assert summary["tokens_per_second"] > 0
    assert (whole / "report.html").stat().st_size > 10_000
    assert (whole / "recipe.toml").exists()
    assert len(trajectory_files(whole)) > 0
    events = read_metrics(whole / "metrics.jsonl")
    assert any(e["kind"] == "rl" and e.get("grad_norm", 0.0) > 0 for e in events), "nothing was learned from a reward"
    kinds = [e["kind"] for e in events]
    assert (kinds.count("sft"), kinds.count("rl"), kinds.count("eval")) == (100, 6, 2)
    assert any((whole / "tensorboard" / "rl").iterdir())


def test_every_trajectory_is_trained_at_most_once_and_ends_once(whole: Path):
    keys = [(ordinal, sample) for ordinal, sample, _ in trained_tasks(whole)]
    assert len(keys) == len(set(keys)) > 0


def test_the_exported_model_loads_with_the_library(whole: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(whole / "model")
    tokenizer = AutoTokenizer.from_pretrained(whole / "model")
    ids = tokenizer("What is 2 + 3?", return_tensors="pt")
    assert model(**ids).logits.isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("killed_after_events", [30, 103, 105])
def test_a_killed_run_ends_with_the_same_weights(
    whole: Path, tmp_path: Path, start: Start, finish: Finish, killed_after_events: int
):
    process = start("rl", RECIPE, "--output-dir", tmp_path)
    metrics = tmp_path / "tiny-0" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= killed_after_events):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    printed = finish(start("rl", "--resume", tmp_path / "tiny-0"))
    assert printed.splitlines()[-1] == f"run: {tmp_path / 'tiny-0'}"
    expected = load_file(whole / "model" / "model.safetensors")
    resumed = load_file(tmp_path / "tiny-0" / "model" / "model.safetensors")
    assert expected.keys() == resumed.keys()
    assert all(expected[name].equal(resumed[name]) for name in expected)
    assert without_clocks(metrics) == without_clocks(whole / "metrics.jsonl")
    assert trained_tasks(tmp_path / "tiny-0") == trained_tasks(whole)


def test_a_resumed_run_must_keep_its_recipe(whole: Path, start: Start):
    process = start("rl", RECIPE, "--resume", whole, "--optimizer.learning_rate", "0.5")
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "optimizer.learning_rate" in printed
    assert "Traceback" not in printed


def test_a_run_directory_is_never_written_over(whole: Path, start: Start):
    process = start("rl", RECIPE, "--output-dir", whole.parent)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "--resume" in printed


def test_reinforcement_refuses_a_hopeless_start(tmp_path: Path, start: Start):
    process = start("rl", RECIPE, "--output-dir", tmp_path, "--training.min_start_accuracy", "0.99", "--sft.steps", "1")
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 7
    assert "min_start_accuracy" in printed
    assert "Traceback" not in printed


def test_ctrl_c_stops_within_seconds_and_the_run_can_go_on(tmp_path: Path, start: Start, finish: Finish):
    process = start("rl", RECIPE, "--output-dir", tmp_path)
    metrics = tmp_path / "tiny-0" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 102):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    assert "--resume" in printed
    finish(start("rl", "--resume", tmp_path / "tiny-0"))


def test_the_evaluation_command_measures_an_exported_model(whole: Path, start: Start, finish: Finish):
    printed = finish(start("eval", RECIPE, "--checkpoint", whole / "model", "--json"))
    figures = json.loads(printed)
    assert figures["arithmetic"]["num_graded"] == 8
