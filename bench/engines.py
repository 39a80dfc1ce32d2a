"""Tokens per second of the embedded engine, of engine processes and of vLLM: one model, the same prompts, one run.

    python bench/engines.py --json [--vllm-python PATH] [--rows 8,32] [--tokens 128] [--rounds 3]

The engines take turns, round after round, each with the machine to itself; a factor is relative to the embedded
engine of the same round. Sampling is at temperature 1 to a fixed length, so that every engine makes as many tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "fixtures"))

import torch
from common import emit, record

from agentmath.config.engine import EngineSection
from agentmath.core.types import Sampling
from agentmath.orchestration.engines import Engine, build_engine, model_folder, replicated
from agentmath.training.policy import Policy
from agentmath.training.weights import publish
from tiny_models import TEXT, tiny_policy

SIZES: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4}


def sections(arguments: argparse.Namespace, num_rows: int) -> dict[str, EngineSection]:
    limits = {"max_rows": num_rows, "max_context_tokens": 32 + arguments.tokens, "num_threads": arguments.threads}
    made = {"embedded": EngineSection(**{k: v for k, v in limits.items() if k != "num_threads"})}
    made["process"] = EngineSection(replicas=1, **limits)
    made["two processes"] = EngineSection(replicas=2, **limits)
    if arguments.vllm_python:
        made["vllm"] = EngineSection(kind="vllm", python=arguments.vllm_python, kv_cache_bytes=1 << 30, **limits)
    return made


async def sample(engine: Engine, policy: Policy, num_rows: int, num_tokens: int) -> tuple[int, float]:
    """(tokens, seconds) of one round of requests."""
    contexts = [policy.tokenizer.encode(TEXT[n % 9][:20], allow_special=True) for n in range(num_rows)]
    begin = time.perf_counter()

    async def one(number: int) -> int:
        count = 0
        while count < num_tokens:  # an end token ends a request, not the measurement
            sampling = Sampling(max_new_tokens=num_tokens - count, seed=number)
            done = await engine.generate(contexts[number], sampling, session=number)
            count += len(done.ids)
        engine.close_session(number)
        return count

    counts = await asyncio.gather(*map(one, range(num_rows)))
    return sum(counts), time.perf_counter() - begin


def measure(arguments: argparse.Namespace, num_rows: int) -> list[dict[str, Any]]:
    policy = tiny_policy(**SIZES)
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        folder = stack.enter_context(model_folder(policy, ""))
        engines: dict[str, Engine] = {}
        start_seconds: dict[str, float] = {}
        for name, section in sections(arguments, num_rows).items():
            begin = time.perf_counter()
            if section.num_processes:
                engine = replicated(policy, section, folder)
                runner.run(engine.open())
                stack.callback(lambda e=engine: runner.run(e.close()))
            else:
                engine = build_engine(policy, section)
            engines[name], start_seconds[name] = engine, time.perf_counter() - begin
        rates: dict[str, list[float]] = {name: [] for name in engines}
        updates: dict[str, list[float]] = {name: [] for name in engines}
        for version in range(arguments.rounds + 1):
            for name, engine in engines.items():
                begin = time.perf_counter()
                runner.run(publish(policy, engine, version, shared=engine.shares_weights))
                updates[name].append(time.perf_counter() - begin)
                tokens, seconds = runner.run(sample(engine, policy, num_rows, arguments.tokens))
                rates[name].append(tokens / seconds)
    return [
        {
            "engine": name,
            "rows": num_rows,
            "tokens_per_second": round(statistics.median(rates[name][1:]), 1),
            "factor": round(
                statistics.median(a / b for a, b in zip(rates[name][1:], rates["embedded"][1:], strict=True)), 3
            ),
            "start_seconds": round(start_seconds[name], 2),
            "update_seconds": round(statistics.median(updates[name][1:]), 4),
        }
        for name in engines
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--vllm-python", default="", help="a Python with vllm; without one vLLM is left out")
    parser.add_argument("--rows", default="8,32", help="requests at a time")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    num_parameters = sum(p.numel() for p in tiny_policy(**SIZES).module.parameters())
    found = [row for count in arguments.rows.split(",") for row in measure(arguments, int(count))]
    result = record("engines", vars(arguments), {"num_parameters": num_parameters, "rows": found})
    lines = [
        f"{r['rows']:4} rows  {r['engine']:14} {r['tokens_per_second']:10,.0f} tokens/s  {r['factor']:.2f}"
        for r in found
    ]
    emit(result, as_json=arguments.json, lines=lines)


if __name__ == "__main__":
    main()
