"""Whole runs over vLLM, lost processes, and what cannot be loaded."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmath.core.errors import EngineError
from agentmath.core.types import Completion, Sampling
from agentmath.engines import replicas
from agentmath.telemetry.events import read_metrics
from tiny_models import TEXT, tiny_policy

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"


def group_members(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def wait_until_gone(group: int) -> None:
    deadline = time.monotonic() + 60
    while group_members(group):
        assert time.monotonic() < deadline, f"processes {group_members(group)} are left of group {group}"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["server", "core"])
def test_a_killed_engine_loses_and_doubles_nothing(open_vllm: Any, monkeypatch: pytest.MonkeyPatch, victim: str):
    monkeypatch.setattr(replicas, "_BACKOFF_SECONDS", 0.05)
    policy = tiny_policy()
    contexts = [policy.tokenizer.encode(t[:14], allow_special=True) for t in TEXT[:8]]

    async def ask(engine: Any) -> list[Completion]:
        sampling = Sampling(max_new_tokens=150, temperature=0.0)
        return list(await asyncio.gather(*(engine.generate(c, sampling, session=n) for n, c in enumerate(contexts))))

    async def go(vllm: Any) -> tuple[list[Completion], list[Completion], int]:
        undisturbed = await ask(vllm.engine)
        task = asyncio.create_task(ask(vllm.engine))
        process = vllm.engine._processes[0]
        while not any(s.num_tokens > 3 for s in process._streams.values()) and not task.done():
            await asyncio.sleep(0.002)
        group = process.pid
        target = group if victim == "server" else max(group_members(group) or [group])
        os.kill(target, signal.SIGKILL)
        return undisturbed, await task, group

    with open_vllm(policy, replicas=2) as vllm:
        undisturbed, done, group = vllm.run(go(vllm))
        wait_until_gone(group)
        for one, other in zip(done, undisturbed, strict=True):
            assert one.ids.tolist() == other.ids.tolist()
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=2e-5)


@pytest.mark.slow
def test_a_run_trains_over_vllm(vllm_python: str, tmp_path: Path):
    command = [
        *(sys.executable, "-c", "from agentmath.cli.main import main; main()", "rl", str(RECIPE)),
        *("--run.output_dir", str(tmp_path), "--engine.kind", "vllm", "--engine.python", vllm_python),
        *("--sft.steps", "80", "--training.steps", "4"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=400, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [e for e in read_metrics(tmp_path / "tiny-0" / "metrics.jsonl") if e["kind"] == "rl"]
    assert len(steps) == 4
    assert all(e["parity_mean"] < 1e-4 and e["engine_restarts"] == 0 for e in steps)


@pytest.mark.slow
def test_a_model_that_vllm_cannot_load_is_one_sentence(open_vllm: Any):
    def spoil(folder: Path) -> None:
        config = folder / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "no_such"}))

    with pytest.raises(EngineError) as caught, open_vllm(tiny_policy(), spoil=spoil):
        pass
    (line,) = str(caught.value).splitlines()
    assert line.startswith("engine 0 (vllm) cannot start: vLLM cannot load the model of")


TRAINER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from tiny_models import tiny_policy
from agentmath.config.engine import EngineSection
from agentmath.orchestration.engines import model_folder, replicated
policy = tiny_policy()
section = EngineSection(kind="vllm", python=sys.argv[2], max_rows=4, max_context_tokens=64, kv_cache_bytes=1 << 28)
async def main(folder):
    engine = replicated(policy, section, folder)
    task = asyncio.create_task(engine.open())
    while engine.pids[0] is None:
        await asyncio.sleep(0.01)
    print(engine.pids[0], flush=True)
    await task
    print("up", flush=True)
    await asyncio.sleep(600)
with model_folder(policy, "") as folder:
    asyncio.run(main(folder))
"""


@pytest.mark.slow
def test_nothing_survives_a_trainer_that_is_killed(vllm_python: str):
    fixtures = str(RECIPE.parent)
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, fixtures, vllm_python], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None
    try:
        group = int(trainer.stdout.readline())
        assert trainer.stdout.readline() == "up\n"
        assert len(group_members(group)) >= 2
    finally:
        trainer.kill()
        trainer.wait(30)
        trainer.stdout.close()
    wait_until_gone(group)
