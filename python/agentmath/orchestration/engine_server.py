"""The program of an engine process: python -m agentmath.orchestration.engine_server KIND SOCKET

Started by engines/spawn.py. For vllm nothing is imported but core and engines, as the process may live in an
environment that holds neither our compiled part nor a transformers that our models are made for.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from agentmath.core.errors import EngineError
from agentmath.engines.backend import Backend
from agentmath.engines.server import follow_the_trainer, serve

if TYPE_CHECKING:
    from agentmath.engines.backend import LoadSpec
    from agentmath.engines.transformers_backend import LoadedModel


def main(kind: str, socket: str) -> None:
    follow_the_trainer()
    asyncio.run(_main(kind, socket))


async def _main(kind: str, socket: str) -> None:
    await serve(socket, _backend(kind))


def _backend(kind: str) -> Backend:
    if kind == "vllm":
        from agentmath.engines.vllm_engine import VllmBackend

        return VllmBackend()
    return _transformers_backend()


def _transformers_backend() -> Backend:
    from agentmath.engines.transformers_backend import TransformersBackend

    return TransformersBackend(_load)


def _load(spec: LoadSpec) -> LoadedModel:
    try:
        from agentmath.config.engine import EngineSection
        from agentmath.config.model import ModelSection
        from agentmath.engines.transformers_backend import LoadedModel
        from agentmath.orchestration.engines import build_engine
        from agentmath.training.policy import load_policy
        from agentmath.training.weights import logprobs_of
    except ImportError as error:
        raise EngineError(
            f"the Python of this engine cannot run engine.kind transformers ({error}): install agentmath there, or "
            "leave engine.python empty"
        ) from error
    policy = load_policy(ModelSection(path=spec.model, dtype=spec.dtype), name="engine", seed=0)  # pyright: ignore[reportArgumentType]
    section = EngineSection(
        max_rows=spec.max_rows,
        max_context_tokens=spec.max_context_tokens,
        max_prefill_tokens=spec.max_prefill_tokens,
    )
    engine = build_engine(policy, section, version=spec.version, awaits_tools=False)
    return LoadedModel(
        engine=engine,
        parameters=dict(policy.named_parameters()),
        score=lambda rows: logprobs_of(policy, rows),
        facts={"family": policy.family},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
