from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agentmath.config.telemetry import TelemetrySection
from agentmath.core.errors import TrainingError
from agentmath.telemetry.run_dir import RunDirectory
from agentmath.telemetry.writers import MetricsWriter, read_metrics

PLAIN = TelemetrySection.model_validate({"tensorboard": False})


def steps_seen(folder: Path, tag: str) -> list[int]:
    """Steps of one tag as TensorBoard itself shows them."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), purge_orphaned_data=True)
    events.Reload()
    return [e.step for e in events.Scalars(tag)]


def test_an_event_is_one_line_with_kind_step_and_time(tmp_path: Path) -> None:
    times = iter([100.0, 101.5])
    with RunDirectory.create(tmp_path) as run, MetricsWriter(run, PLAIN, clock=lambda: next(times)) as writer:
        writer.write("rl", 3, {"loss": np.float32(0.5), "groups": 2, "skipped": "no group"})
        assert read_metrics(run.metrics) == [
            {"kind": "rl", "step": 3, "time_seconds": 1.5, "loss": 0.5, "groups": 2, "skipped": "no group"}
        ]


def test_numbers_that_are_not_finite_become_null_and_are_named(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run, MetricsWriter(run, PLAIN) as writer:
        writer.write("rl", 1, {"loss": math.nan, "grad_norm": -math.inf, "entropy": 0.25})
        event = json.loads(run.metrics.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert event["loss"] is None
    assert event["nonfinite"] == {"loss": "nan", "grad_norm": "-inf"}
    assert event["entropy"] == 0.25


def test_a_metric_cannot_take_the_place_of_the_event_itself(tmp_path: Path) -> None:
    with (
        RunDirectory.create(tmp_path) as run,
        MetricsWriter(run, PLAIN) as writer,
        pytest.raises(AssertionError, match="step"),
    ):
        writer.write("rl", 1, {"step": 7})


def test_a_resumed_writer_continues_lines_and_time(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run:
        run.metrics.write_text('{"kind": "rl", "step": 1, "time_seconds": 40.0}\n{"kind": "rl", "st')
        with MetricsWriter(run, PLAIN, resumed=True, clock=lambda: 7.0) as writer:
            writer.write("rl", 2, {})
        assert [(e["step"], e["time_seconds"]) for e in read_metrics(run.metrics)] == [(1, 40.0), (2, 40.0)]


def test_a_file_of_one_torn_line_begins_anew(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run:
        run.metrics.write_text('{"kind": "rl"')
        with MetricsWriter(run, PLAIN) as writer:
            writer.write("rl", 1, {})
        assert [e["step"] for e in read_metrics(run.metrics)] == [1]


def test_a_killed_process_loses_no_event(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    code = """
import os, signal, sys
from pathlib import Path
from agentmath.config.telemetry import TelemetrySection
from agentmath.telemetry.run_dir import RunDirectory
from agentmath.telemetry.writers import MetricsWriter
writer = MetricsWriter(RunDirectory.create(Path(sys.argv[1])), TelemetrySection(tensorboard=True))
for step in (1, 2, 3):
    writer.write("rl", step, {"loss": 0.5})
assert "torch" not in sys.modules
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = tmp_path / "run"
    child = subprocess.run([sys.executable, "-c", code, str(run)], env=dict(os.environ), check=False)
    assert child.returncode == -9
    assert [e["step"] for e in read_metrics(run / "metrics.jsonl")] == [1, 2, 3]
    assert steps_seen(run / "tensorboard" / "rl", "loss") == [1, 2, 3]


def test_tensorboard_shows_after_a_resume_what_an_uninterrupted_run_would_show(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    section = TelemetrySection.model_validate({"tensorboard": True})
    path = tmp_path / "run"
    with RunDirectory.create(path) as run, MetricsWriter(run, section) as writer:
        for step in range(1, 31):
            writer.write("sft", step, {"loss": 1.0})
        for step in range(1, 6):
            writer.write("rl", step, {"loss": 0.5, "accuracy": math.nan, "note": "text"})
    with RunDirectory.resume(path) as run:
        run.cut_after(2)
        with MetricsWriter(run, section, resumed=True) as writer:
            for step in range(3, 5):
                writer.write("rl", step, {"loss": 0.25})
    assert steps_seen(path / "tensorboard" / "rl", "loss") == [1, 2, 3, 4]
    assert steps_seen(path / "tensorboard" / "sft", "loss") == list(range(1, 31))


def test_no_tensorboard_files_when_the_section_says_off(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run, MetricsWriter(run, PLAIN) as writer:
        writer.write("rl", 1, {"loss": 0.5})
        assert list(run.tensorboard.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_disk_is_one_clear_error_and_closing_does_not_repeat_it(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run:
        run.metrics.symlink_to("/dev/full")
        writer = MetricsWriter.__new__(MetricsWriter)
        writer._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
        writer._boards, writer._folder = {}, None
        writer._clock, writer._started = (lambda: 0.0), 0.0
        with pytest.raises(TrainingError, match="--resume"):
            writer.write("rl", 1, {})
        writer.close()


TRAINER = """
import os, signal, sys
from pathlib import Path
from agentmath.config.telemetry import TelemetrySection
from agentmath.telemetry.run_dir import RunDirectory, holds_run
from agentmath.telemetry.writers import MetricsWriter

path, operations_left = Path(sys.argv[1]), int(sys.argv[2])

def done():
    global operations_left
    operations_left -= 1
    if operations_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

resumed = holds_run(path)
run = RunDirectory.resume(path) if resumed else RunDirectory.create(path)
saved = run.checkpoints / "step"
step = int(saved.read_text()) if saved.exists() else 0
run.recipe.write_text("x")
if resumed:
    run.cut_after(step)
writer = MetricsWriter(run, TelemetrySection.model_validate({"tensorboard": False}), resumed=resumed)
while step < 7:
    step += 1
    run.trajectories(step).write_text(str(step)); done()
    writer.write("rl", step, {"loss": step / 8}); done()
    if step % 3 == 0:
        writer.write("eval", step, {"accuracy": step / 8}); done()
    if step % 2 == 0:
        saved.with_suffix(".tmp").write_text(str(step)); os.replace(saved.with_suffix(".tmp"), saved); done()
"""


def everything_recorded(run: Path) -> tuple[list[tuple[object, ...]], dict[str, str]]:
    lines = [tuple(v for k, v in e.items() if k != "time_seconds") for e in read_metrics(run / "metrics.jsonl")]
    return lines, {f.name: f.read_text() for f in (run / "trajectories").iterdir()}


def test_a_run_killed_anywhere_and_resumed_records_what_an_uninterrupted_one_records(tmp_path: Path) -> None:
    def train(run: Path, operations: int) -> int:
        command = [sys.executable, "-c", TRAINER, str(run), str(operations)]
        return subprocess.run(command, env=dict(os.environ), check=False).returncode

    assert train(tmp_path / "straight", 0) == 0
    for kills in ((1, 4), (6, 5, 7), (11,)):
        broken = tmp_path / f"broken-{kills[0]}"
        assert [train(broken, operations) for operations in (*kills, 0)] == [-9] * len(kills) + [0]
        assert everything_recorded(broken) == everything_recorded(tmp_path / "straight")
