"""Trajectories on disk: a parquet file per step for people and for later training.

One row is one trajectory. Texts are views, made by decoding runs of tokens; the token arrays beside them are the truth
and suffice to train on the trajectory again. Unfinished groups are kept exactly by rollout/parking.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agentmath.core.errors import DataError, TrainingError
from agentmath.core.types import Group, SpanKind, ToolResult, ToolStatus, Trajectory, Turn
from agentmath.rollout.parking import from_bytes, to_bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["from_bytes", "read_trajectories", "to_bytes", "write_trajectories"]

Decode = Callable[[Sequence[int]], str]
Mask = npt.NDArray[np.bool_]
FORMAT = b"1"
ROWS_PER_GROUP = 128
_TAGGED = re.compile(r"\s*<(\w+)>(.*)</\1>\s*", re.DOTALL)


def write_trajectories(path: Path, groups: Sequence[Group], step: int, decode: Decode) -> None:
    """Write every trajectory of groups, finished or not; the file appears whole or not at all.

    Raises TrainingError when the disk refuses. Text that is no valid Unicode is written with escapes in its place.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = trajectory_schema()
    unfinished = path.with_name(path.name + ".tmp")
    trajectories = [t for group in groups for t in group.trajectories]
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for begin in range(0, len(trajectories), ROWS_PER_GROUP):
                texts = _Texts(decode)
                rows = [_row(t, step, texts) for t in trajectories[begin : begin + ROWS_PER_GROUP]]
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise TrainingError(
            f"cannot write trajectories to {path}: {error.strerror or error}. Make room and go on with --resume."
        ) from error


def read_trajectories(path: Path) -> list[dict[str, Any]]:
    """All rows of a file; token arrays come as numpy arrays, reward parts as a dict."""
    return list(iterate_trajectories(path))


def iterate_trajectories(path: Path) -> Iterator[dict[str, Any]]:
    """Rows one by one; only one row group is in memory. Raises DataError for a file that is none of ours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if (file.schema_arrow.metadata or {}).get(b"agentmath.format") != FORMAT:
                raise DataError(f"{path} is no trajectory file of this version of agentmath.")
            for index in range(file.num_row_groups):
                table = file.read_row_group(index)
                arrays = {name: table.column(name) for name in _ARRAYS}
                for i, row in enumerate(table.drop_columns(list(_ARRAYS)).to_pylist()):
                    row["reward_parts"] = dict(row["reward_parts"])
                    row |= {name: arrays[name][i].values.to_numpy(zero_copy_only=False) for name in _ARRAYS}
                    yield row
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"cannot read trajectories from {path}: {error}.") from error


_RESULT_FIELDS = tuple(f.name for f in fields(ToolResult))
_ARRAYS = ("ids", "logprobs", "kinds", "versions")


def trajectory_schema() -> pa.Schema:
    """Columns of a trajectory file."""
    import pyarrow as pa

    text, count, real = pa.string(), pa.int64(), pa.float64()
    turn = [("role", text), ("agent", text), ("stop_reason", text), ("text", text), ("output", text)]
    turn += [("first_token", count), ("num_tokens", count), ("tool", text), ("source", text), ("status", text)]
    turn += [("stdout", text), ("stderr", text), ("stdout_bytes", count), ("stderr_bytes", count)]
    turn += [("value", text), ("error", text), ("exit_code", count), ("signal", count)]
    turn += [("cpu_seconds", real), ("wall_seconds", real), ("queue_seconds", real), ("peak_memory_bytes", count)]
    turn += [("layers", pa.list_(text))]
    span = [("kind", text), ("turn", count), ("num_tokens", count), ("text", text)]
    segment = [("first_turn", count), ("num_turns", count), ("step", count)]
    segment += [("num_sampled_tokens", count), ("num_tool_calls", count)]
    columns = [("step", count), ("ordinal", count), ("sample_index", count), ("task_id", text), ("source", text)]
    columns += [("question", text), ("gold", text), ("difficulty", real), ("stop_reason", text), ("error", text)]
    columns += [("reward", real), ("reward_parts", pa.map_(text, real)), ("extracted", text), ("rule", text)]
    columns += [("advantage", real), ("num_context_tokens", count), ("num_sampled_tokens", count)]
    columns += [("num_tool_calls", count), ("num_tool_failures", count), ("turns", pa.list_(pa.struct(turn)))]
    columns += [("spans", pa.list_(pa.struct(span))), ("segments", pa.list_(pa.struct(segment)))]
    columns += [("prompt_text", text), ("turn_texts", pa.list_(text)), ("outputs", pa.list_(text))]
    columns += [("ids", pa.list_(pa.int32())), ("logprobs", pa.list_(pa.float32()))]
    columns += [("kinds", pa.list_(pa.uint8())), ("versions", pa.list_(pa.int32()))]
    return pa.schema(columns, metadata={b"agentmath.format": FORMAT})


class _Texts:
    """Decodes runs of tokens, equal ones once."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._known: dict[bytes, str] = {}

    def of(self, ids: npt.NDArray[np.int32]) -> str:
        key = ids.tobytes()
        if key not in self._known:
            self._known[key] = _valid(self._decode(ids.tolist())) if len(ids) else ""
        return self._known[key]


def _row(trajectory: Trajectory, step: int, texts: _Texts) -> dict[str, Any]:
    task, reward, tokens = trajectory.task, trajectory.reward, trajectory.tokens
    results = [t.result for t in trajectory.turns if t.result is not None]
    masks = [t.tokens.trainable for t in trajectory.turns]
    turn_texts, outputs = _exchange(trajectory.turns, masks, texts)
    return {
        "step": step,
        "ordinal": trajectory.ordinal,
        "sample_index": trajectory.sample_index,
        "task_id": _valid(task.id),
        "source": _valid(task.source),
        "question": _valid(task.question),
        "gold": _valid(task.answer),
        "difficulty": task.difficulty,
        "stop_reason": trajectory.stop_reason,
        "error": _valid(trajectory.error),
        "reward": reward.total if reward else None,
        "reward_parts": [(_valid(name), value) for name, value in reward.parts.items()] if reward else [],
        "extracted": _valid(reward.extracted) if reward else None,
        "rule": _valid(reward.rule) if reward else None,
        "advantage": trajectory.advantage,
        "num_context_tokens": len(tokens),
        "num_sampled_tokens": sum(int(m.sum()) for m in masks),
        "num_tool_calls": len(results),
        "num_tool_failures": sum(r.status is not ToolStatus.OK for r in results),
        "turns": _turn_rows(trajectory, masks, texts),
        "spans": _span_rows(trajectory, texts),
        "segments": [asdict(s) for s in trajectory.segments],
        "prompt_text": texts.of(trajectory.prompt.ids),
        "turn_texts": turn_texts,
        "outputs": outputs,
        **{name: getattr(tokens, name) for name in _ARRAYS},
    }


def _turn_rows(trajectory: Trajectory, masks: Sequence[Mask], texts: _Texts) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    first = len(trajectory.prompt)
    for turn, sampled in zip(trajectory.turns, masks, strict=True):
        row = {
            "role": _valid(turn.role),
            "agent": _valid(turn.agent),
            "stop_reason": turn.stop_reason,
            "first_token": first,
            "num_tokens": len(turn.tokens),
            "text": texts.of(turn.tokens.ids[sampled]),
            "output": texts.of(turn.tokens.ids[~sampled]),
        }
        if turn.call is not None:
            row |= {"tool": _valid(turn.call.tool), "source": _valid(turn.call.source)}
        if turn.result is not None:
            row |= {name: _valid(getattr(turn.result, name)) for name in _RESULT_FIELDS}
        rows.append(row)
        first += len(turn.tokens)
    return rows


def _span_rows(trajectory: Trajectory, texts: _Texts) -> list[dict[str, Any]]:
    """Runs of equal kind; turn -1 is the prompt."""
    rows: list[dict[str, Any]] = []
    for turn, tokens in enumerate([trajectory.prompt, *(t.tokens for t in trajectory.turns)], start=-1):
        begin = 0
        for kind, run in groupby(tokens.kinds.tolist()):
            end = begin + sum(1 for _ in run)
            text = texts.of(tokens.ids[begin:end])
            rows.append({"kind": SpanKind(kind).name.lower(), "turn": turn, "num_tokens": end - begin, "text": text})
            begin = end
    return rows


def _exchange(turns: Sequence[Turn], masks: Sequence[Mask], texts: _Texts) -> tuple[list[str], list[str]]:
    """What was sampled between insertions, and what was inserted, without its tags: a demonstration's two lists.

    A turn that a segment bound has cut goes on in the next one; both are one text here. There are as many outputs as
    texts only if the trajectory ended right behind an insertion, else one fewer.
    """
    said: list[str] = []
    outputs: list[str] = []
    waiting: list[npt.NDArray[np.int32]] = []
    for turn, sampled in zip(turns, masks, strict=True):
        waiting.append(turn.tokens.ids[sampled])
        if not sampled.all():
            said.append(texts.of(np.concatenate(waiting)))
            waiting = []
            inserted = texts.of(turn.tokens.ids[~sampled])
            tagged = _TAGGED.fullmatch(inserted)
            outputs.append(tagged.group(2) if tagged else inserted)
    if waiting:
        said.append(texts.of(np.concatenate(waiting)))
    return said, outputs


def _valid(value: Any) -> Any:
    """Text, also in a tuple, that UTF-8 can carry: a lone surrogate is written as \\udXXX. All else is left alone."""
    if isinstance(value, tuple):
        return [_valid(item) for item in value]
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()
