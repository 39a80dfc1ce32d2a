"""A small recorded run whose texts try to break out of the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agentmath.core.types import (
    Group,
    Reward,
    SpanKind,
    StopReason,
    Task,
    Tokens,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)
from agentmath.rollout.recorder import write_trajectories

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&lt; \u202eevil\x00 {{SCRIPT}}"


def sampled(text: str, kind: SpanKind) -> Tokens:
    n = len(text)
    return Tokens(
        ids=np.array([ord(c) for c in text], np.int32),
        logprobs=np.zeros(n, np.float32),
        kinds=np.full(n, kind, np.uint8),
        versions=np.zeros(n, np.int32),
    )


def sample(index: int, text: str, status: ToolStatus | None) -> Trajectory:
    task = Task(id=f"task-{index}", question=HOSTILE, answer="51", source="svamp")
    turns = []
    if status is not None:
        output = Tokens.inserted([ord(c) for c in "<interpreter>51</interpreter>"], SpanKind.INTERPRETER)
        tokens = Tokens.concatenate([sampled("<code>1</code>", SpanKind.CODE), output])
        result = ToolResult(status=status, stderr=HOSTILE, cpu_seconds=0.25, exit_code=1)
        call = ToolCall(tool="code", source="1")
        turns.append(Turn(role="r", agent="a", tokens=tokens, stop_reason=StopReason.STOP, call=call, result=result))
    turns.append(Turn(role="r", agent="a", tokens=sampled(text, SpanKind.ANSWER), stop_reason=StopReason.ANSWER))
    return Trajectory(
        task=task,
        sample_index=index % 8,
        ordinal=index // 8,
        prompt=Tokens.inserted([ord(c) for c in HOSTILE], SpanKind.PROMPT),
        turns=turns,
        stop_reason=StopReason.LENGTH if index % 8 == 7 else StopReason.ANSWER,
        reward=Reward(total=float(index % 2), parts={"accuracy": float(index % 2)}, extracted=text[:50]),
    )


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """record(steps, samples, text): the path of a run with metrics and trajectories of that many steps."""

    def make(steps: int = 2, samples: int = 8, text: str = HOSTILE) -> Path:
        run = tmp_path / "run-0"
        (run / "trajectories").mkdir(parents=True)
        statuses = (None, ToolStatus.OK, ToolStatus.EXCEPTION)
        for step in range(1, steps + 1):
            made = [sample(i, text, statuses[i % 3]) for i in range(samples)]
            group = Group(task=made[0].task, ordinal=0, trajectories=made)
            file = run / "trajectories" / f"step-{step:06d}.parquet"
            write_trajectories(file, [group], step, lambda ids: "".join(map(chr, ids)))
        lines = [
            f'{{"kind": "rl", "step": {s}, "time_seconds": {s}, "accuracy": 0.{s}, "seconds/train": 1.5}}'
            for s in (1, 2)
        ]
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        (run / "recipe.toml").write_text(f'[run]\nname = "{HOSTILE}"\n')
        return run

    return make
