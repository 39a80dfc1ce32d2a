from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentmath.config.run import RunSection
from agentmath.core.errors import ConfigError
from agentmath.telemetry.run_dir import (
    RunDirectory,
    holds_run,
    missing_run,
    run_path,
    trajectory_files,
    write_atomically,
)

LINES = [
    '{"kind": "eval", "step": 0}',
    '{"kind": "sft", "step": 1}',
    '{"kind": "sft", "step": 30}',
    '{"kind": "eval", "step": 0}',
    '{"kind": "rl", "step": 1}',
    '{"kind": "rl", "step": 2}',
    '{"kind": "eval", "step": 2}',
    '{"kind": "rl", "step": 3}',
    '{"kind": "rl", "step": 4}',
]


def recorded(path: Path, lines: list[str] = LINES, tail: str = "") -> RunDirectory:
    run = RunDirectory.create(path)
    run.metrics.write_text("".join(line + "\n" for line in lines) + tail)
    for step in (1, 2, 3, 4):
        run.trajectories(step).write_bytes(b"x")
    return run


def kept_lines(run: RunDirectory) -> list[str]:
    return run.metrics.read_text().splitlines()


def test_a_new_run_has_its_folders_and_no_events(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "a" / "b") as run:
        assert sorted(p.name for p in run.path.iterdir() if not p.name.startswith(".")) == [
            "checkpoints",
            "inspect",
            "tensorboard",
            "trajectories",
        ]
        assert run.trajectories(123).name == "step-000123.parquet"
        assert not holds_run(run.path)


def test_a_folder_that_holds_a_run_is_refused_unless_resumed(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run:
        run.recipe.write_text("x")
    with pytest.raises(ConfigError, match="--resume"):
        RunDirectory.create(tmp_path)
    with RunDirectory.resume(tmp_path) as run:
        assert run.recipe.read_text() == "x"


def test_an_empty_start_that_crashed_is_no_run(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run").close()
    RunDirectory.create(tmp_path / "run").close()


def test_resuming_where_no_run_is_names_the_runs_below(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "quick-0") as run:
        run.recipe.write_text("x")
    with pytest.raises(ConfigError, match="holds runs: quick-0"):
        RunDirectory.resume(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        RunDirectory.resume(tmp_path / "nothing")
    assert "is a file" in missing_run(tmp_path / "quick-0" / "recipe.toml")


def test_two_writers_never_share_a_run(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as run:
        run.recipe.write_text("x")
        with pytest.raises(ConfigError, match=f"another process .id {os.getpid()}."):
            RunDirectory.resume(tmp_path)
    RunDirectory.resume(tmp_path).close()


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from agentmath.telemetry.run_dir import RunDirectory; "
        "run = RunDirectory.create(Path(sys.argv[1])); run.recipe.write_text('x'); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    child = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False, env=dict(os.environ))
    assert child.returncode == -9
    RunDirectory.resume(tmp_path / "run").close()


def test_a_path_that_cannot_be_a_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the run directory"):
        RunDirectory.create(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot make the run directory"):
        RunDirectory.create(tmp_path / "file" / "below")


def test_resume_cuts_off_all_that_came_after_the_step(tmp_path: Path) -> None:
    with recorded(tmp_path / "run", tail='{"kind": "rl", "st') as run:
        run.summary.write_text("{}")
        run.report.write_text("old")
        run.cut_after(2)
        assert kept_lines(run) == LINES[:7]
        assert [step for step, _ in trajectory_files(run.path)] == [1, 2]
        assert not run.summary.exists()
        assert not run.report.exists()
        run.cut_after(2)
        assert kept_lines(run) == LINES[:7]


def test_evaluations_behind_the_step_are_kept_up_to_the_number_the_checkpoint_knew(tmp_path: Path) -> None:
    again = '{"kind": "eval", "step": 2, "again": 1}'
    lines = [*LINES[:7], again, *LINES[7:]]
    for number, kept in ((None, 8), (4, 8), (3, 7), (2, 6)):
        with recorded(tmp_path / f"run-{number}", lines) as run:
            run.cut_after(2, num_evaluations=number)
            assert kept_lines(run) == lines[:kept]


def test_sft_steps_are_counted_apart_from_rl_steps(tmp_path: Path) -> None:
    with recorded(tmp_path / "rl") as run:
        run.cut_after(0)
        assert kept_lines(run) == LINES[:4]
        assert trajectory_files(run.path) == []
    with recorded(tmp_path / "sft") as run:
        run.cut_after(1, stage="sft")
        assert kept_lines(run) == LINES[:2]
        assert trajectory_files(run.path) == []


def test_cutting_a_run_without_metrics_or_beyond_its_end_changes_nothing(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "empty") as run:
        run.cut_after(5)
        assert not run.metrics.exists()
    with recorded(tmp_path / "full") as run:
        run.cut_after(99)
        assert kept_lines(run) == LINES


def test_unfinished_files_are_no_trajectory_files(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        for name in ("step-000007.parquet", "step-000002.parquet", "step-000003.parquet.tmp", "notes.txt"):
            (run.trajectories(0).parent / name).write_bytes(b"")
        run.trajectories(1_000_000).write_bytes(b"")
        assert [step for step, _ in trajectory_files(run.path)] == [2, 7, 1_000_000]


def test_output_dir_is_the_run_itself_only_if_it_is_one(tmp_path: Path) -> None:
    section = RunSection.model_validate({"name": "quick", "seed": 3, "output_dir": str(tmp_path)})
    assert run_path(section) == tmp_path / "quick-3"
    (tmp_path / "recipe.toml").write_text("")
    assert run_path(section) == tmp_path


def test_a_checkpoint_is_no_run_although_it_holds_a_recipe(tmp_path: Path) -> None:
    for name in ("recipe.toml", "manifest.json"):
        (tmp_path / name).touch()
    assert not holds_run(tmp_path)
    assert "is one checkpoint of a run" in missing_run(tmp_path)


def test_a_file_that_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "recipe.toml"
    write_atomically(file, "old")

    def full(self: Path, text: str, **_: object) -> int:
        self.write_bytes(text[:1].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, "new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("recipe.toml", b"old")]
