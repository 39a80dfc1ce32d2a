"""What bench/balancer.py replays: requests with their prompt blocks, and workers that cache blocks as engines do."""

from __future__ import annotations

import csv
import io
import json
import lzma
import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

GROUPS, GROUP_SIZE, TURNS = 40, 8, 8
TURN_BLOCKS = 20
"""Blocks of a prompt, and of what each turn adds: the best possible hit ratio is then 0.80."""
NUM_ACTIVE = 64
PREFILL_SECONDS_PER_TOKEN, STEP_SECONDS = 40e-6, 0.012
"""A worker's time: what it misses, then a decode step for each token; those of the reference simulation, roughly."""


@dataclass(frozen=True, slots=True)
class Request:
    blocks: tuple[int, ...]
    """Ids of the prompt's blocks, each naming its whole prefix; empty where the trace has none."""
    num_tokens: int
    session: int | None
    seconds: float
    """The worker's time, without what it has to prefill."""
    arrival: float = 0.0
    """Seconds; without meaning where the next request of a session follows the one before (closed loop)."""


@dataclass(frozen=True, slots=True)
class Replay:
    name: str
    block_tokens: int
    requests: tuple[Request, ...]
    sessions: tuple[tuple[Request, ...], ...] = ()
    """Closed loop: NUM_ACTIVE sessions at a time, in this order, the turns of each one after the other."""
    cache_blocks: int = 20_000
    """Of each worker."""

    @property
    def num_distinct_blocks(self) -> int:
        return len({block for request in self.requests for block in request.blocks})


def session_replay(seed: int = 0) -> Replay:
    """40 groups of 8 sessions of 8 turns; a group shares its prompt, each turn adds as much again."""
    draw, fresh, sessions = random.Random(seed), iter(range(1, 10**9)), []
    for group in range(GROUPS):
        prompt = tuple(next(fresh) for _ in range(TURN_BLOCKS))
        for sample in range(GROUP_SIZE):
            context, turns = prompt, []
            for _ in range(TURNS):
                number = group * GROUP_SIZE + sample + 1
                turns.append(Request(context, 16 * len(context), number, draw.uniform(0.01, 0.03)))
                context += tuple(next(fresh) for _ in range(TURN_BLOCKS))
            sessions.append(tuple(turns))
    return Replay("session", 16, tuple(turn for turns in sessions for turn in turns), tuple(sessions))


def cold_replay(seed: int = 0) -> Replay:
    """2,000 prompts of 600 blocks that share nothing."""
    draw = random.Random(seed)
    requests = (
        Request(tuple(range(600 * i + 1, 600 * i + 601)), 9600, None, draw.uniform(0.01, 0.03), 0.01 * i)
        for i in range(2000)
    )
    return Replay("cold", 16, tuple(requests))


def read_trace(path: Path, *, limit: int, speed: float) -> Replay:
    """A trace of Mooncake (JSON lines, blocks of 512 tokens) or Azure (CSV, lengths only), xz or plain. A conversation
    is known by its second block, as the first is a system prompt that many share."""
    data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    lines = data.decode().splitlines()
    if lines[0].startswith("{"):
        rows = [json.loads(line) for line in lines[:limit]]
        requests = [
            Request(
                tuple(row["hash_ids"]),
                row["input_length"],
                row["hash_ids"][1] if len(row["hash_ids"]) > 1 else None,
                row["output_length"] * STEP_SECONDS,
                row["timestamp"] / 1000 / speed,
            )
            for row in rows
        ]
        return Replay(path.name.split(".")[0], 512, tuple(requests), cache_blocks=3000)
    table = list(csv.DictReader(io.StringIO("\n".join(lines[: limit + 1]))))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in table]
    requests = [
        Request((), int(row["ContextTokens"]), None, int(row["GeneratedTokens"]) * STEP_SECONDS, (t - times[0]) / speed)
        for row, t in zip(table, times, strict=True)
    ]
    return Replay(path.name.split(".")[0], 16, tuple(requests))


class Worker:
    """An engine's prefix cache: blocks, the least recently used go first."""

    def __init__(self, cache_blocks: int) -> None:
        self.cache_blocks = cache_blocks
        self.cached: OrderedDict[int | str, None] = OrderedDict()
        self.num_requests = self.num_blocks = self.num_hits = 0

    def serve(self, blocks: Sequence[int | str]) -> int:
        """Leading blocks that were cached."""
        hits = 0
        while hits < len(blocks) and blocks[hits] in self.cached:
            hits += 1
        for block in reversed(blocks):  # a prompt's last blocks are the first to go
            self.cached[block] = None
            self.cached.move_to_end(block)
        while len(self.cached) > self.cache_blocks:
            self.cached.popitem(last=False)
        self.num_requests += 1
        self.num_blocks += len(blocks)
        self.num_hits += hits
        return hits
