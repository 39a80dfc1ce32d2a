"""A real server process, the library's own `serve`, behind a network that fails: the same words as our own engine's."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("torch")

from agentmath.config.endpoint import EndpointSection
from agentmath.config.engine import EngineSection
from agentmath.config.model import ModelSection
from agentmath.core.types import Completion, Sampling, StopReason
from agentmath.engines.openai_engine import OpenAIEngine
from agentmath.orchestration.engines import build_engine
from agentmath.training.policy import Policy, export_hf, load_policy
from faulty_server import FaultyServer, serving

NEEDED = ("fastapi", "uvicorn", "openai")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"transformers serve needs {', '.join(MISSING)}: not installed"),
]
QUESTIONS = [f"Tom has {i} apples and gets {i + 2} more. How many?\n" for i in range(2, 8)]
LIMIT = 12


@pytest.fixture(scope="module")
def policy() -> Policy:
    """A new model that nobody trained: what it says is nonsense, and the same nonsense everywhere."""
    section = ModelSection(
        hidden_size=64, num_layers=2, num_heads=2, num_key_value_heads=1, ffn_size=128, vocab_size=320
    )
    return load_policy(section, name="policy", seed=3, corpus=QUESTIONS * 20)


@pytest.fixture(scope="module")
def server(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(address, model's name) of a server process that holds the model."""
    folder = tmp_path_factory.mktemp("served")
    export_hf(policy, folder / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder / "model")]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        await_health(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1", str(folder / "model")
    finally:
        process.terminate()
        process.wait(timeout=30)


def await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"no server after 180 s: {log.read_text()}"
        try:
            if httpx2.get(url, timeout=2).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.1)


def forwarding(url: str) -> Any:
    """An answer that is the real server's, piece by piece."""

    def answer(body: dict[str, Any]) -> Iterator[str]:
        with httpx2.stream("POST", f"{url}/completions", json=body, timeout=60) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if line.startswith("data:") and "[DONE]" not in line:
                    yield json.loads(line.removeprefix("data:"))["choices"][0].get("text") or ""

    return answer


def words(policy: Policy, done: Completion) -> str:
    """Text without control tokens: a server leaves them out."""
    ids = [int(i) for i in done.ids if int(i) not in policy.tokenizer.control_ids]
    return policy.tokenizer.decode(ids)


async def all_from(engine: Any, policy: Policy) -> list[str]:
    ids = [policy.tokenizer.encode(q, allow_special=False) for q in QUESTIONS]
    sampling = Sampling(max_new_tokens=LIMIT, temperature=0.0)
    done = await asyncio.gather(*(engine.generate(x, sampling, session=n) for n, x in enumerate(ids)))
    assert {d.stop_reason for d in done} <= {StopReason.LENGTH, StopReason.EOS}
    return [words(policy, d) for d in done]


@pytest.mark.parametrize(
    "faults", [[], ["429", "drop", "500", "refuse", "silence", "drop", "503"]], ids=["fair", "foul"]
)
def test_a_served_model_says_what_our_own_engine_says(
    policy: Policy, server: tuple[str, str], faults: list[str]
) -> None:
    url, name = server
    own = asyncio.run(all_from(build_engine(policy, EngineSection(max_rows=8)), policy))
    between = FaultyServer(forwarding(url), faults)
    counts: list[dict[str, int]] = []

    async def main(address: str) -> list[str]:
        section = EndpointSection(
            url=address, model=name, api="completions", backoff_seconds=0.01, idle_seconds=20, max_concurrent=2
        )
        engine = OpenAIEngine(section, policy.tokenizer, output=("<interpreter>", "</interpreter>"), seed=0)
        try:
            said = await all_from(engine, policy)
        finally:
            await engine.close()
        counts.append(dict(engine.counts))
        return said

    with serving(between) as address:
        served = asyncio.run(main(address))
    assert served == own and any(own)
    assert counts[0]["requests"] == len(QUESTIONS) and counts[0].get("lost", 0) == 0
    assert counts[0]["tries"] >= len(QUESTIONS) + len(faults)
