"""Engine processes over a policy: what they load, how they are told of new weights, and how that is checked."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from agentmath.agents.single import SingleAgent
from agentmath.config.engine import EngineSection
from agentmath.core.errors import ConfigError
from agentmath.data.mixture import Pool
from agentmath.engines import parity
from agentmath.engines.backend import LoadSpec
from agentmath.engines.process import Deadlines, EngineProcess
from agentmath.engines.replicas import ReplicaSettings, ReplicatedEngine
from agentmath.engines.routing import LeastLoaded, Router
from agentmath.engines.spawn import Home
from agentmath.engines.transformers_engine import TransformersEngine
from agentmath.training import weights
from agentmath.training.policy import Policy, export_hf

Engine = TransformersEngine | ReplicatedEngine
_PLACE_SECONDS = 3600.0
"""Longer than all restarts of an engine take; the step's own deadline is rollout.deadline_seconds."""


def build_engine(
    policy: Policy, section: EngineSection, *, version: int = 0, awaits_tools: bool = True
) -> TransformersEngine:
    """An engine in this process that decodes with the policy's own weights."""
    return TransformersEngine(
        forward=policy.forward_rows,
        head=policy.head_weight,
        shape=policy.cache_shape(),
        tokenizer=policy.tokenizer,
        section=section,
        version=version,
        awaits_tools=awaits_tools,
    )


@contextmanager
def open_engine(policy: Policy, section: EngineSection, runner: asyncio.Runner, *, folder: str) -> Iterator[Engine]:
    """The engine that [engine] describes; leaving ends its processes. folder: where the policy came from, if any."""
    if not section.num_processes:
        yield build_engine(policy, section)
        return
    with model_folder(policy, folder) as path:
        engine = replicated(policy, section, path)
        runner.run(engine.open())
        try:
            yield engine
        finally:
            runner.run(engine.close())


@contextmanager
def model_folder(policy: Policy, origin: str) -> Iterator[Path]:
    """A folder that engine processes load the policy from; a temporary one where the policy came from none."""
    path = Path(origin).expanduser()
    if origin and path.is_dir() and (path / "tokenizer.json").is_file():
        yield path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="agentmath-model-") as made:
        export_hf(policy, made)
        yield Path(made)


def replicated(
    policy: Policy, section: EngineSection, folder: Path, *, router: Router | None = None, mends_reload: bool = True
) -> ReplicatedEngine:
    """Engine processes as [engine] describes them, not started yet. Raises ConfigError for a socket path too long."""
    count, dtype = section.num_processes, str(policy.dtype).removeprefix("torch.")
    spec = LoadSpec(
        model=str(folder),
        dtype=dtype,
        version=policy.version,
        eos_ids=policy.tokenizer.eos_ids,
        max_rows=section.max_rows,
        max_context_tokens=section.max_context_tokens,
        max_prefill_tokens=section.max_prefill_tokens,
        num_threads=section.num_threads or max(1, len(os.sched_getaffinity(0)) // count),
        kv_cache_bytes=section.kv_cache_bytes,
        tensor_parallel=section.tensor_parallel,
        mends_reload=mends_reload,
    )
    deadlines = Deadlines(start=section.start_seconds, answer=section.answer_seconds, stall=section.stall_seconds)
    if policy.dtype not in (torch.float32, torch.bfloat16):
        raise ConfigError(f"model.dtype = {dtype!r}: engine processes take float32 or bfloat16")
    processes = [
        EngineProcess(
            number=number,
            kind=section.kind,
            spec=spec,
            home=Home.make(number, section.socket_dir),
            python=section.python,
            deadlines=deadlines,
        )
        for number in range(count)
    ]
    settings = ReplicaSettings(
        max_context_tokens=section.max_context_tokens,
        keeps_kv=section.kv_on_update == "keep",
        parity_tolerance=section.parity_tolerance or parity.DEFAULT_TOLERANCE[dtype],
        max_restarts=section.max_restarts,
        place_seconds=_PLACE_SECONDS,
    )
    return ReplicatedEngine(processes, router or LeastLoaded(), settings, version=policy.version)


async def publish(policy: Policy, engine: Engine, agent: SingleAgent, pool: Pool, version: int) -> dict[str, float]:
    """Hand the weights to the engine, and let engine processes prove that they compute with them."""
    await weights.publish(policy, engine, version, shared=engine.shares_weights)
    return await prove(policy, engine, agent, pool)


async def prove(policy: Policy, engine: Engine, agent: SingleAgent, pool: Pool) -> dict[str, float]:
    """How far engine processes are from the trainer. Raises EngineError when that is too far."""
    if isinstance(engine, TransformersEngine):
        return {}
    rows = parity_rows(agent, pool)
    expected = parity.Expected(version=policy.version, rows=rows, logprobs=weights.logprobs_of(policy, rows))
    found = await engine.check_parity(expected)
    return {"parity_mean": found.mean, "parity_max": found.largest, "engine_restarts": float(sum(engine.num_restarts))}


def parity_rows(agent: SingleAgent, pool: Pool) -> list[np.ndarray]:
    """The first prompts of the run's tasks, each shortened: the same in every step."""
    every = (*pool.train.values(), *pool.evaluation.values())
    tasks = [task for tasks in every for task in tasks[: parity.MAX_PROMPTS]]
    rows = [agent.prompt(t).ids[-parity.MAX_PROMPT_TOKENS :] for t in tasks[: parity.MAX_PROMPTS]]
    return [np.asarray(row, dtype=np.int32) for row in rows if len(row) > 1]
