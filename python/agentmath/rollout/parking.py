"""Groups as bytes and back, bit for bit: what a checkpoint keeps of trajectories that were not trained on yet.

The bytes are a mark, a digest of what follows, and a .npz archive without pickled objects: one JSON text for everything
but tokens, the tokens of all prompts and turns laid end to end in four arrays, and the scheduler's own state. Equal
groups give equal bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from agentmath._C import rollout
from agentmath.core.errors import CheckpointError
from agentmath.core.types import (
    Group,
    Reward,
    Segment,
    StopReason,
    Task,
    Tokens,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)

MARK = b"agentmath parked 2\n"
_DIGEST_BYTES = 16
_DTYPES = {"ids": np.int32, "logprobs": np.float32, "kinds": np.uint8, "versions": np.int32}


def to_bytes(groups: Sequence[Group], *, scheduler: bytes = b"") -> bytes:
    """All fields of groups, NaN log-probs and invalid text included. A task object that is shared stays shared.

    scheduler: the snapshot of the scheduler that the groups are in, if they are in one.
    """
    writer = _Writer()
    records = {"groups": [writer.group(g) for g in groups], "tasks": writer.tasks}
    text = json.dumps(records, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")
    tokens = Tokens.concatenate(writer.tokens)
    arrays = {name: np.asarray(getattr(tokens, name), dtype=dtype) for name, dtype in _DTYPES.items()}
    out = io.BytesIO()
    members: dict[str, Any] = {"records": np.frombuffer(text, dtype=np.uint8), **arrays}
    members["scheduler"] = np.frombuffer(scheduler, dtype=np.uint8)
    np.savez(out, allow_pickle=False, **members)
    return MARK + _digest(out.getvalue()) + out.getvalue()


def from_bytes(data: bytes) -> list[Group]:
    """The groups that to_bytes was given. Raises CheckpointError for damaged bytes or those of another format."""
    return read(data)[0]


def read(data: bytes) -> tuple[list[Group], bytes]:
    """Groups and scheduler snapshot that to_bytes was given; raises as from_bytes does."""
    archived = data[len(MARK) + _DIGEST_BYTES :]
    if data != MARK + _digest(archived) + archived:
        raise CheckpointError(
            f"the parked trajectories ({len(data)} bytes) are damaged or come from another version of agentmath: "
            "resume from an older checkpoint, or with the version that wrote it."
        )
    with np.load(io.BytesIO(archived), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in _DTYPES}
        records = json.loads(archive["records"].tobytes().decode("utf-8", "surrogatepass"))
        scheduler = archive["scheduler"].tobytes()
    try:
        reader = _Reader(arrays, [Task(**t | {"intermediate": tuple(t["intermediate"])}) for t in records["tasks"]])
        return [reader.group(g) for g in records["groups"]], scheduler
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the parked trajectories have other fields than this version knows ({error}): "
            "resume with the version that wrote them."
        ) from error


def restore_scheduler(core: rollout.Scheduler, snapshot: bytes) -> None:
    """Put a scheduler into the state of a snapshot. Raises CheckpointError for one that it does not understand."""
    try:
        core.restore(snapshot)
    except ValueError as error:
        raise CheckpointError(f"{error}.") from error


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _plain(value: Any) -> Any:
    """A numpy scalar as Python's own number."""
    return value.item()


class _Writer:
    """Collects tasks and tokens while records are turned into JSON."""

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.tokens: list[Tokens] = []
        self._index_of: dict[int, int] = {}

    def group(self, group: Group) -> dict[str, Any]:
        trajectories = [self.trajectory(t) for t in group.trajectories]
        return {"task": self.task(group.task), "ordinal": group.ordinal, "trajectories": trajectories}

    def task(self, task: Task) -> int:
        if id(task) not in self._index_of:
            self._index_of[id(task)] = len(self.tasks)
            self.tasks.append(asdict(task))
        return self._index_of[id(task)]

    def trajectory(self, trajectory: Trajectory) -> dict[str, Any]:
        return {
            "task": self.task(trajectory.task),
            "sample_index": trajectory.sample_index,
            "ordinal": trajectory.ordinal,
            "prompt": self.stretch(trajectory.prompt),
            "turns": [self.turn(t) for t in trajectory.turns],
            "segments": [asdict(s) for s in trajectory.segments],
            "stop_reason": trajectory.stop_reason,
            "reward": None if trajectory.reward is None else asdict(trajectory.reward),
            "advantage": trajectory.advantage,
            "error": trajectory.error,
        }

    def turn(self, turn: Turn) -> dict[str, Any]:
        return {
            "role": turn.role,
            "agent": turn.agent,
            "tokens": self.stretch(turn.tokens),
            "stop_reason": turn.stop_reason,
            "call": None if turn.call is None else asdict(turn.call),
            "result": None if turn.result is None else asdict(turn.result),
            "faults": turn.faults,
        }

    def stretch(self, tokens: Tokens) -> int:
        self.tokens.append(tokens)
        return len(tokens)


class _Reader:
    """Deals out tokens in the order in which they were collected."""

    def __init__(self, arrays: dict[str, Any], tasks: list[Task]) -> None:
        self._arrays = arrays
        self._tasks = tasks
        self._position = 0

    def group(self, record: dict[str, Any]) -> Group:
        # The writer met the trajectories' tokens in this same order.
        trajectories = [self.trajectory(t) for t in record["trajectories"]]
        return Group(task=self._tasks[record["task"]], ordinal=record["ordinal"], trajectories=trajectories)

    def trajectory(self, record: dict[str, Any]) -> Trajectory:
        return Trajectory(
            task=self._tasks[record["task"]],
            sample_index=record["sample_index"],
            ordinal=record["ordinal"],
            prompt=self.stretch(record["prompt"]),
            turns=[self.turn(t) for t in record["turns"]],
            segments=[Segment(**s) for s in record["segments"]],
            stop_reason=None if record["stop_reason"] is None else StopReason(record["stop_reason"]),
            reward=None if record["reward"] is None else Reward(**record["reward"]),
            advantage=record["advantage"],
            error=record["error"],
        )

    def turn(self, record: dict[str, Any]) -> Turn:
        return Turn(
            role=record["role"],
            agent=record["agent"],
            tokens=self.stretch(record["tokens"]),
            stop_reason=StopReason(record["stop_reason"]),
            call=None if record["call"] is None else ToolCall(**record["call"]),
            result=None if record["result"] is None else _result(record["result"]),
            faults=tuple(record.get("faults", ())),
        )

    def stretch(self, num_tokens: int) -> Tokens:
        begin, self._position = self._position, self._position + num_tokens
        parts = {name: array[begin : self._position].copy() for name, array in self._arrays.items()}
        return Tokens(**parts)


def _result(record: dict[str, Any]) -> ToolResult:
    return ToolResult(**record | {"status": ToolStatus(record["status"]), "layers": tuple(record["layers"])})
