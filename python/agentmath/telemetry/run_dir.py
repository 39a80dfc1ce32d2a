"""The folder of one run: where everything lies, who may write, and what a resume cuts off.

    RUN/
      recipe.toml                     the resolved recipe (written by the caller)
      metrics.jsonl                   one line an event, in the order in which things happened
      trajectories/step-000123.parquet
      checkpoints/  tensorboard/  inspect/
      model/  summary.json  report.html       once the run is over

One process writes a run: it holds a lock for as long as the RunDirectory is open.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from types import TracebackType
from typing import Literal

from agentmath.config.run import RunSection
from agentmath.core.errors import ConfigError
from agentmath.telemetry.events import Stage, num_bytes_until

RECIPE, METRICS, SUMMARY, REPORT = "recipe.toml", "metrics.jsonl", "summary.json", "report.html"
TRAJECTORIES, CHECKPOINTS, TENSORBOARD, INSPECT = "trajectories", "checkpoints", "tensorboard", "inspect"
MODEL = "model"
MANIFEST = "manifest.json"
"""In every checkpoint, and in no run: a checkpoint holds a recipe too."""
_LOCK = ".lock"
_STEP_FILE = re.compile(r"step-(\d{6,})\.parquet")


class RunDirectory:
    """Paths of a run that this process may write. A context manager: leaving it gives the lock back."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Lay out a new run. Raises ConfigError if path cannot be made, is in use, or already holds a run."""
        path = path.absolute()
        try:
            path.mkdir(parents=True, exist_ok=True)
            run = cls(path, _take_lock(path))
        except OSError as error:
            raise ConfigError(
                f"cannot make the run directory {path}: {error.strerror or error}. Choose another --run.output_dir."
            ) from error
        try:
            refuse_existing_run(path)
        except ConfigError:
            run.close()
            raise
        run._make_folders()
        return run

    @classmethod
    def resume(cls, path: Path) -> RunDirectory:
        """Open an existing run for writing. Raises ConfigError if there is none or another process writes it."""
        path = path.absolute()
        if not holds_run(path):
            raise ConfigError(f"cannot resume: {missing_run(path)}")
        try:
            run = cls(path, _take_lock(path))
            run._make_folders()
        except OSError as error:
            raise ConfigError(f"cannot write the run directory {path}: {error.strerror or error}.") from error
        return run

    @property
    def recipe(self) -> Path:
        return self.path / RECIPE

    @property
    def metrics(self) -> Path:
        return self.path / METRICS

    @property
    def summary(self) -> Path:
        return self.path / SUMMARY

    @property
    def report(self) -> Path:
        return self.path / REPORT

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def tensorboard(self) -> Path:
        return self.path / TENSORBOARD

    @property
    def inspect(self) -> Path:
        """Batches kept for a person to look at, e.g. one with a non-finite loss."""
        return self.path / INSPECT

    def trajectories(self, step: int) -> Path:
        """File of the trajectories of one step."""
        return self.path / TRAJECTORIES / f"step-{step:06d}.parquet"

    def cut_after(self, step: int, *, stage: Stage = "rl", num_evaluations: int | None = None) -> None:
        """Drop what was recorded after `step` of `stage`, so that going on from there repeats nothing.

        Metrics are cut in one system call. Evaluations right behind that step are kept, up to num_evaluations events of
        that kind in the run: a checkpoint that counts them tells those made before it from those after it. Safe to
        repeat after a crash in between. TensorBoard files are left to the MetricsWriter, which tells readers to forget
        later points. Checkpoints are the caller's.
        """
        self.summary.unlink(missing_ok=True)
        self.report.unlink(missing_ok=True)
        last_kept = step if stage == "rl" else 0
        for found, file in reversed(trajectory_files(self.path)):
            if found > last_kept:
                file.unlink()
        if self.metrics.exists():
            os.truncate(self.metrics, num_bytes_until(self.metrics, step, stage=stage, num_evaluations=num_evaluations))

    def close(self) -> None:
        """Give the lock back; closing twice is harmless."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.close()
        return False

    def _make_folders(self) -> None:
        for name in (TRAJECTORIES, CHECKPOINTS, TENSORBOARD, INSPECT):
            (self.path / name).mkdir(exist_ok=True)


def run_path(section: RunSection) -> Path:
    """Where the run lives: output_dir itself if it is a run, else output_dir/name-seed."""
    output_dir = Path(section.output_dir).expanduser()
    return output_dir if holds_run(output_dir) else output_dir / f"{section.name}-{section.seed}"


def refuse_existing_run(path: Path) -> None:
    """Raise ConfigError when a new run would be written over an old one."""
    if holds_run(path):
        raise ConfigError(
            f"{path} already holds a run. Go on with it by --resume, or choose another --run.name, --run.seed or "
            "--run.output_dir; nothing was changed."
        )


def holds_run(path: Path) -> bool:
    """Whether a run was written there: its recipe, metrics or summary lies in it, and it is no checkpoint."""
    return not (path / MANIFEST).is_file() and any((path / name).is_file() for name in (RECIPE, METRICS, SUMMARY))


def missing_run(path: Path) -> str:
    """Why path is no run, and which runs lie below it: the text of an error."""
    if not path.exists():
        return f"{path} does not exist."
    if not path.is_dir():
        return f"{path} is a file, not a run directory."
    if (path / MANIFEST).is_file():
        return f"{path} is one checkpoint of a run. Name the run's own folder."
    runs = sorted(child.name for child in path.iterdir() if child.is_dir() and holds_run(child))
    if runs:
        return f"{path} is no run directory, but holds runs: {', '.join(runs[:10])}. Name one of them."
    return f"{path} holds no run (no {RECIPE}, {METRICS} or {SUMMARY} in it)."


def write_atomically(path: Path, text: str) -> None:
    """The file is the old one or the new one, never half of either."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def trajectory_files(path: Path) -> list[tuple[int, Path]]:
    """(step, file) of every finished trajectory file of the run, in order of steps."""
    folder = path / TRAJECTORIES
    if not folder.is_dir():
        return []
    matches = [(_STEP_FILE.fullmatch(file.name), file) for file in folder.iterdir()]
    return sorted((int(m.group(1)), file) for m, file in matches if m is not None)


def _take_lock(path: Path) -> int:
    """Descriptor of the locked file; the kernel frees the lock when the process ends, however it ends."""
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise ConfigError(
            f"{path} is being written by another process (id {owner}). Wait for it or end it, or choose another "
            "--run.name, --run.seed or --run.output_dir."
        ) from error
    except OSError:
        os.close(lock)
        raise
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
