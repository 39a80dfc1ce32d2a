"""Our own decoding inside an engine process. The model itself is handed in: loading it is not this room's business."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from agentmath.core.errors import EngineError
from agentmath.engines.backend import Chunk, Emit, Ending, Floats, Ids, LoadSpec, Wanted
from agentmath.engines.transformers_engine import TransformersEngine

_PARTIAL_SECONDS = 0.1
"""How often unfinished requests send what they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What the backend needs of a model."""

    engine: TransformersEngine
    parameters: Mapping[str, Tensor]
    """Every weight once, by the name that the trainer gives it."""
    score: Callable[[Sequence[Ids]], list[Floats]]
    """Log-probs of each row's tokens but the first."""
    facts: Mapping[str, Any]


class TransformersBackend:
    """Backend over TransformersEngine."""

    def __init__(self, load: Callable[[LoadSpec], LoadedModel]) -> None:
        self._load = load
        self._model: LoadedModel | None = None
        self._sessions: dict[int, int] = {}

    @property
    def _loaded(self) -> LoadedModel:
        assert self._model is not None
        return self._model

    async def load(self, spec: LoadSpec) -> Mapping[str, Any]:
        if spec.num_threads:
            torch.set_num_threads(spec.num_threads)
        self._model = self._load(spec)
        return self._model.facts

    async def generate(self, wanted: Wanted, emit: Emit) -> None:
        engine, session = self._loaded.engine, wanted.session
        self._sessions[wanted.key] = session
        request = asyncio.ensure_future(engine.generate(wanted.ids.tolist(), wanted.sampling, session=session))
        sent = 0
        try:
            while not request.done():
                await asyncio.wait([request], timeout=_PARTIAL_SECONDS)
                if not request.done():
                    sent += _emit_partial(engine, session, sent, emit)
            done = request.result()
        finally:
            request.cancel()
            del self._sessions[wanted.key]
        ending = Ending(reason=done.stop_reason, stop_text=done.stop_text)
        emit(Chunk(ids=done.ids[sent:], logprobs=done.logprobs[sent:], version=done.versions[sent:], ending=ending))

    async def abort(self, key: int) -> None:
        session = self._sessions.get(key)
        if session is not None:
            await self._loaded.engine.abort(session)

    async def close_session(self, session: int) -> None:
        self._loaded.engine.close_session(session)

    async def score(self, rows: Sequence[Ids]) -> list[Floats]:
        return self._loaded.score(rows)

    async def update_weights(self, version: int, path: str, *, keeps_kv: bool) -> None:
        """Caches are always dropped."""
        model = self._loaded
        tensors = load_file(path)
        missing = model.parameters.keys() ^ tensors.keys()
        if missing:
            raise EngineError(f"the trainer's weights and the engine's differ in {len(missing)} names: {min(missing)}")
        with torch.no_grad():
            for name, parameter in model.parameters.items():
                if parameter.shape != tensors[name].shape:
                    raise EngineError(
                        f"{name} has shape {tuple(tensors[name].shape)}, here it is {tuple(parameter.shape)}"
                    )
                parameter.copy_(tensors[name])
        await model.engine.update_weights(version, None)

    async def pause(self, *, keeps_kv: bool) -> None:
        await self._loaded.engine.pause(keeps_kv=keeps_kv)

    async def resume(self) -> None:
        self._loaded.engine.resume()

    async def reset_prefix_cache(self) -> None:
        """Sessions keep nothing that another one meets: prefixes are shared only while they are computed."""
        await self._loaded.engine.update_weights(self._loaded.engine.version, None)

    def is_dead(self) -> bool:
        return False

    async def check_health(self) -> None:
        """A server that answers can serve."""

    def stats(self) -> Mapping[str, float]:
        return {"running": float(len(self._sessions)), "version": float(self._loaded.engine.version)}


def _emit_partial(engine: TransformersEngine, session: int, sent: int, emit: Emit) -> int:
    """Send what is new; returns how many tokens that were."""
    now = engine.partial(session)
    if len(now.ids) > sent:
        emit(Chunk(ids=now.ids[sent:], logprobs=now.logprobs[sent:], version=now.versions[sent:]))
    return max(len(now.ids) - sent, 0)
