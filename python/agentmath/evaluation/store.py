"""Samples on disk as they are drawn: what was kept once is never drawn again, whenever the process dies.

    FOLDER/
      plan.json          what is measured: the folder's name holds its digest
      samples.journal    one record each time samples were kept: what a later life goes on from
      samples.parquet    all samples, as training records its own
      results.json       figures

A record is its length, a digest, and a JSON line with the figures of the effort before the samples themselves. A record
that a kill has cut short is taken off; what it would have held is drawn again, with the same seeds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from agentmath.core.errors import CheckpointError, ConfigError
from agentmath.core.types import Group, Tokens, Trajectory
from agentmath.rollout import parking

PLAN, JOURNAL, SAMPLES, RESULTS = "plan.json", "samples.journal", "samples.parquet", "results.json"
_HEAD = struct.Struct("<Q16s")
Key = tuple[int, int]
"""(ordinal, sample_index)."""


class Pieces(Protocol):
    """A table of pieces of text that grows, so that ids differ between processes."""

    def texts_of(self, ids: Iterable[int]) -> dict[int, str]: ...

    def ids_of(self, texts: Mapping[int, str]) -> dict[int, int]: ...


class Store:
    """The samples of one evaluation. A context manager: one process has it at a time."""

    def __init__(self, folder: Path, pieces: Pieces | None = None) -> None:
        """pieces: the table behind token ids, where it is one that grows. Raises ConfigError when another process has
        the folder, or when it cannot be written."""
        self.folder, self._pieces = folder, pieces
        self.done: dict[Key, Trajectory] = {}
        self.seconds = 0.0
        """Of all lives, by the clock."""
        self.counts: Counter[str] = Counter()
        """What the engine counted, in all lives."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / JOURNAL, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"cannot write the evaluation {folder}: {error.strerror or error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError as error:
            os.close(self._file)
            raise ConfigError(f"{folder} is being written by another process: wait for it, or end it") from error
        except BaseException:
            os.close(self._file)
            raise

    def keep(self, trajectories: Sequence[Trajectory], *, seconds: float, counts: Mapping[str, int]) -> None:
        """Add graded samples; when this returns a kill cannot lose them. Raises CheckpointError when the disk refuses.

        Samples that the infrastructure lost are not kept, only what they cost: a later life draws them again.
        """
        kept = [t for t in trajectories if t.reward is not None]
        again = [(t.ordinal, t.sample_index) for t in kept if (t.ordinal, t.sample_index) in self.done]
        if again:
            raise CheckpointError(f"sample {again[0]} of {self.folder} was drawn twice")
        known = {} if self._pieces is None else {"pieces": self._pieces.texts_of(_ids(kept))}
        effort = json.dumps({"seconds": seconds, "counts": dict(counts), **known}).encode()
        groups = [Group(task=t.task, ordinal=t.ordinal, trajectories=[t]) for t in kept]
        body = effort + b"\n" + parking.to_bytes(groups)
        try:
            _write(self._file, _HEAD.pack(len(body), _digest(body)) + body)
            os.fsync(self._file)
        except OSError as error:
            raise CheckpointError(f"cannot keep samples in {self.folder}: {error.strerror or error}") from error
        self._take(kept, seconds, counts)

    def close(self) -> None:
        """Give the folder back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _read(self) -> None:
        whole = 0
        for body, end in _records(self._file):
            whole = end
            effort, _, samples = body.partition(b"\n")
            found = json.loads(effort)
            kept = [t for g in parking.from_bytes(samples) for t in g.trajectories]
            if self._pieces is not None:
                _renumber(kept, self._pieces.ids_of({int(i): text for i, text in found["pieces"].items()}))
            self._take(kept, found["seconds"], found["counts"])
        os.ftruncate(self._file, whole)
        os.lseek(self._file, whole, os.SEEK_SET)

    def _take(self, kept: Sequence[Trajectory], seconds: float, counts: Mapping[str, int]) -> None:
        self.done.update({(t.ordinal, t.sample_index): t for t in kept})
        self.seconds += seconds
        self.counts.update(counts)


def _ids(trajectories: Sequence[Trajectory]) -> list[int]:
    """Every id that occurs, once."""
    return sorted({int(i) for t in trajectories for i in t.tokens.ids})


def _renumber(trajectories: Sequence[Trajectory], new_ids: Mapping[int, int]) -> None:
    def renumbered(tokens: Tokens) -> Tokens:
        return replace(tokens, ids=np.asarray([new_ids[int(i)] for i in tokens.ids], dtype=np.int32))

    for t in trajectories:
        t.prompt = renumbered(t.prompt)
        t.turns = [replace(turn, tokens=renumbered(turn.tokens)) for turn in t.turns]


def _records(file: int) -> Iterator[tuple[bytes, int]]:
    """(body, where it ends) of each whole record; a damaged one ends the file."""
    end = 0
    while len(head := os.pread(file, _HEAD.size, end)) == _HEAD.size:
        size, digest = _HEAD.unpack(head)
        if size > os.fstat(file).st_size:
            return
        body = _pread(file, size, end + _HEAD.size)
        if len(body) < size or _digest(body) != digest:
            return
        end += _HEAD.size + size
        yield body, end


def _pread(file: int, size: int, at: int) -> bytes:
    parts: list[bytes] = []
    while size and (part := os.pread(file, size, at)):
        parts.append(part)
        size, at = size - len(part), at + len(part)
    return b"".join(parts)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def digest_of(value: Any) -> str:
    """16 hex digits that name a record of plain values."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()
