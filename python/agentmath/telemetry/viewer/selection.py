"""Which trajectories the report shows: a bounded choice over steps and outcomes, read from the run's parquet files.

Only light columns are read to choose; texts are read for the rows that were chosen, and clipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentmath.telemetry.run_dir import trajectory_files

MAX_TRAJECTORIES = 200
MAX_STEPS = 10
MAX_TEXT_CHARS = 20_000
"""Of one text; longer ones keep head and tail."""
MAX_TOTAL_CHARS = 6_000_000
"""Of all texts together."""
TRUNCATED = ("length", "max_tool_calls")
_LIGHT = ["reward_parts", "stop_reason", "num_tool_calls", "num_tool_failures"]
_FULL = [
    *("step", "ordinal", "sample_index", "task_id", "source", "question", "gold", "stop_reason", "error"),
    *("reward", "reward_parts", "extracted", "rule", "advantage", "num_context_tokens", "num_sampled_tokens"),
    *("num_tool_calls", "num_tool_failures", "turns", "spans"),
]
_TURN = ("role", "agent", "stop_reason", "tool", "status", "stderr", "value", "error", "exit_code", "signal")
_TURN_TIMES = ("cpu_seconds", "wall_seconds", "queue_seconds")


def select_trajectories(run_dir: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """(trajectories as plain data, sentences about what is not shown)."""
    import pyarrow as pa

    files = trajectory_files(run_dir)
    notes: list[str] = []
    chosen: list[dict[str, Any]] = []
    picked = spread(files, MAX_STEPS)
    total = 0
    for _, file in picked:
        try:
            rows, found = _read(file, MAX_TRAJECTORIES // len(picked))
        except (OSError, KeyError, pa.ArrowInvalid) as error:
            notes.append(f"{file.name} could not be read ({type(error).__name__}).")
            continue
        total += found
        chosen += rows
    kept, chars = [], 0
    for row in chosen:
        chars += sum(len(s["text"]) for s in row["spans"]) + len(row["question"])
        if chars <= MAX_TOTAL_CHARS:
            kept.append(row)
    if files:
        shown = f"{len(kept)} of {total} trajectories of {len(picked)} of {len(files)} recorded steps are shown here"
        notes.insert(0, f"{shown}; all of them lie in the run's trajectories folder.")
    return kept, notes


def spread(items: Sequence[Any], limit: int) -> list[Any]:
    """At most limit items, evenly spaced, the first and the last among them."""
    if len(items) <= limit:
        return list(items)
    return [items[round(i * (len(items) - 1) / (limit - 1))] for i in range(limit)]


def outcome(row: dict[str, Any]) -> str:
    """The one word that a trajectory is chosen by."""
    if row["stop_reason"] in TRUNCATED:
        return "truncated"
    if row["num_tool_failures"]:
        return "tool error"
    right = dict(row["reward_parts"] or ()).get("accuracy") == 1
    return ("right" if right else "wrong") + ("" if row["num_tool_calls"] else ", no tool")


def choose(outcomes: Iterable[str], limit: int) -> list[int]:
    """Indices of at most limit rows, outcomes in turn, in order of rows."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for index, word in enumerate(outcomes):
        waiting[word].append(index)
    chosen: list[int] = []
    while len(chosen) < limit and waiting:
        for word in sorted(waiting):
            if len(chosen) < limit:
                chosen.append(waiting[word].pop(0))
            if not waiting[word]:
                del waiting[word]
    return sorted(chosen)


def _read(file: Path, limit: int) -> tuple[list[dict[str, Any]], int]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as parquet:
        light = parquet.read(columns=_LIGHT).to_pylist()
        wanted = set(choose((outcome(row) for row in light), limit))
        rows: list[dict[str, Any]] = []
        first = 0
        for index in range(parquet.num_row_groups):
            size = parquet.metadata.row_group(index).num_rows
            here = [i - first for i in wanted if first <= i < first + size]
            if here:
                table = parquet.read_row_group(index, columns=_FULL)
                rows += [_plain(row) for row in table.take(sorted(here)).to_pylist()]
            first += size
    return rows, len(light)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """What the page needs of a row, texts clipped."""
    turns = [
        {name: clip(turn[name]) for name in _TURN if turn[name] not in (None, "")}
        | {name: round(turn[name], 6) for name in _TURN_TIMES if turn[name] is not None}
        for turn in row["turns"]
    ]
    spans = [span | {"text": clip(span["text"])} for span in row["spans"]]
    return row | {
        "question": clip(row["question"]),
        "gold": clip(row["gold"]),
        "extracted": clip(row["extracted"]),
        "reward_parts": dict(row["reward_parts"] or ()),
        "outcome": outcome(row),
        "turns": turns,
        "spans": spans,
    }


def clip(value: Any) -> Any:
    """A text of bearable length: head and tail, and how much is missing between them."""
    if not isinstance(value, str) or len(value) <= MAX_TEXT_CHARS:
        return value
    head, tail = value[: MAX_TEXT_CHARS * 3 // 4], value[-MAX_TEXT_CHARS // 4 :]
    missing = len(value) - len(head) - len(tail)
    return f"{head}\n[... {missing:,} characters are not shown ...]\n{tail}"
