"""Where numbers go: metrics.jsonl always, TensorBoard when the section asks for it."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from agentmath.config.telemetry import TelemetrySection
from agentmath.core.errors import ConfigError, TrainingError
from agentmath.telemetry.events import Kind, read_metrics, scan
from agentmath.telemetry.run_dir import RunDirectory

__all__ = ["RESERVED", "MetricsWriter", "TensorBoardWriter", "read_metrics"]

RESERVED = ("kind", "step", "time_seconds", "nonfinite")
_FULL_DISK = "Is the disk full? Make room and go on with --resume."


class MetricsWriter:
    """Appends events; every line is with the operating system before write returns.

    time_seconds is the time spent in this run so far: after a resume it goes on where the kept lines end.
    """

    def __init__(
        self,
        run: RunDirectory,
        section: TelemetrySection,
        *,
        resumed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """resumed: TensorBoard readers are told to forget points later than the kept lines."""
        lines = list(scan(run.metrics)) if run.metrics.exists() else []
        if run.metrics.exists():
            os.truncate(run.metrics, lines[-1][0] if lines else 0)
        events = [event for _, event in lines]
        self._clock = clock
        self._started = clock() - max((float(e.get("time_seconds") or 0.0) for e in events), default=0.0)
        self._file = open(run.metrics, "ab", buffering=0)  # noqa: SIM115
        self._boards: dict[str, TensorBoardWriter] = {}
        self._folder = run.tensorboard if section.tensorboard else None
        if self._folder is not None and resumed:
            for kind in ("sft", "rl", "eval"):
                last = max((e["step"] for e in events if e["kind"] == kind), default=-1)
                if (self._folder / kind).exists():
                    self._boards[kind] = TensorBoardWriter(self._folder / kind, purge_step=last + 1)

    def write(self, kind: Kind, step: int, values: Mapping[str, Any]) -> None:
        """One event. Values are numbers or short texts; whatever float() takes will do."""
        clash = [name for name in RESERVED if name in values]
        assert not clash, f"metric names {clash} are taken by the event itself"
        seconds = round(self._clock() - self._started, 6)
        event: dict[str, Any] = {"kind": kind, "step": step, "time_seconds": seconds}
        nonfinite: dict[str, str] = {}
        for name, value in values.items():
            plain = _plain(value)
            if isinstance(plain, float) and not math.isfinite(plain):
                nonfinite[name], plain = str(plain), None
            event[name] = plain
        if nonfinite:
            event["nonfinite"] = nonfinite
        self._append(json.dumps(event, allow_nan=False).encode() + b"\n")
        if self._folder is not None:
            if kind not in self._boards:
                self._boards[kind] = TensorBoardWriter(self._folder / kind)
            numbers = {k: float(v) for k, v in event.items() if k not in RESERVED and isinstance(v, int | float)}
            self._boards[kind].write(step, numbers)

    def _append(self, line: bytes) -> None:
        """Unbuffered, so that nothing waits to fail again when the file is closed."""
        try:
            whole = self._file.write(line) == len(line)
        except OSError as error:
            raise TrainingError(f"cannot write {self._file.name}: {error.strerror}. {_FULL_DISK}") from error
        if not whole:
            raise TrainingError(f"cannot write {self._file.name}: the line was cut. {_FULL_DISK}")

    def close(self) -> None:
        """End all files; closing twice is harmless."""
        self._file.close()
        for board in self._boards.values():
            board.close()
        self._boards.clear()

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.close()
        return False


class TensorBoardWriter:
    """Scalars of one kind of event, in a folder of its own.

    TensorBoard forgets, per folder, every point from purge_step on: kinds that count steps apart must not share one.
    """

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ConfigError(
                f"telemetry.tensorboard is on, but tensorboard cannot be imported ({error}). "
                "Install it (pip install tensorboard) or give --telemetry.tensorboard false."
            ) from error
        # What these modules define exists at run time only; a checker cannot see it.
        self._event: Any = getattr(event_pb2, "Event")  # noqa: B009
        self._summary: Any = getattr(summary_pb2, "Summary")  # noqa: B009
        session_log: Any = getattr(event_pb2, "SessionLog")  # noqa: B009
        self._writer = EventFileWriter(str(folder))
        if purge_step is not None:
            start = session_log(status=session_log.START)
            self._writer.add_event(self._event(wall_time=time.time(), step=purge_step, session_log=start))
            self._writer.flush()

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """One point per name; on disk when this returns, so that a killed run loses nothing."""
        points = [self._summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        try:
            self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=points)))
            self._writer.flush()
        except OSError as error:
            raise TrainingError(f"cannot write TensorBoard files: {error.strerror or error}. {_FULL_DISK}") from error

    def close(self) -> None:
        # All points were flushed before; what fails here has been reported by write.
        with suppress(OSError):
            self._writer.close()


def _plain(value: Any) -> float | int | str | None:
    return value if value is None or isinstance(value, str | int) else float(value)
