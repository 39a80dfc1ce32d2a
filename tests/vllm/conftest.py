"""Tests of the real vLLM, which lives in an environment of its own: `make test-vllm` builds it and names its Python."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from agentmath.config.engine import EngineSection
from agentmath.engines.parity import Expected, Parity
from agentmath.engines.replicas import ReplicatedEngine
from agentmath.orchestration.engines import model_folder, replicated
from agentmath.training.policy import Policy
from agentmath.training.weights import logprobs_of, publish
from tiny_models import rows, shake

VARIABLE = "AGENTMATH_VLLM_PYTHON"


class Running:
    """A policy and engine processes that hold it, on one event loop."""

    def __init__(self, runner: asyncio.Runner, policy: Policy, engine: ReplicatedEngine) -> None:
        self.runner, self.policy, self.engine, self.version = runner, policy, engine, 0

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(coroutine, 240)

        return self.runner.run(bounded())

    async def publish(self, *, scale: float = 0.03) -> None:
        """Other weights, in the trainer and in the engine."""
        self.version += 1
        shake(self.policy.module, seed=self.version, scale=scale)
        await publish(self.policy, self.engine, self.version, shared=False)

    async def prove(self) -> Parity:
        prompts = rows(self.policy)
        expected = Expected(version=self.version, rows=prompts, logprobs=logprobs_of(self.policy, prompts))
        return await self.engine.check_parity(expected)


Open = Callable[..., Any]


@pytest.fixture(scope="session")
def vllm_python() -> str:
    found = os.environ.get(VARIABLE, "")
    if not found:
        pytest.skip(f"{VARIABLE} names no Python with vllm; make test-vllm builds one")
    return found


@pytest.fixture(scope="session")
def open_vllm(vllm_python: str) -> Open:
    @contextmanager
    def make(
        policy: Policy, *, mends_reload: bool = True, spoil: Callable[[Path], object] | None = None, **values: Any
    ) -> Iterator[Running]:
        torch.set_num_threads(1)
        limits = {"max_rows": 8, "max_context_tokens": 192, "kv_cache_bytes": 1 << 28, "num_threads": 1}
        section = EngineSection.model_validate({"kind": "vllm", "python": vllm_python} | limits | values)
        with asyncio.Runner() as runner, model_folder(policy, "") as folder:
            if spoil is not None:
                spoil(folder)
            engine = replicated(policy, section, folder, mends_reload=mends_reload)
            runner.run(engine.open())
            try:
                yield Running(runner, policy, engine)
            finally:
                runner.run(engine.close())

    return make
