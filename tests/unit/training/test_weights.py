from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentmath.core.errors import EngineError  # noqa: E402
from agentmath.training.weights import publish  # noqa: E402


class Engine:
    def __init__(self, *, fails: bool = False) -> None:
        self.calls: list[tuple[int, Mapping[str, Any] | None]] = []
        self.fails = fails

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise EngineError("gone")
        self.calls.append((version, tensors))


def policy() -> Any:
    w = torch.nn.Parameter(torch.ones(3))
    return SimpleNamespace(version=3, w=w, named_parameters=lambda: [("w", w)])


def test_an_engine_that_shares_the_weights_is_told_the_version_only() -> None:
    engine: Any = Engine()
    p = policy()
    asyncio.run(publish(p, engine, 4))
    assert engine.calls == [(4, None)]
    assert p.version == 4


def test_an_engine_with_its_own_weights_gets_detached_tensors_of_the_same_memory() -> None:
    engine: Any = Engine()
    p = policy()
    asyncio.run(publish(p, engine, 5, shared=False))
    ((version, tensors),) = engine.calls
    assert version == 5
    assert not tensors["w"].requires_grad
    assert tensors["w"].data_ptr() == p.w.data_ptr()


def test_the_version_changes_only_once_the_engine_has_the_weights() -> None:
    engine: Any = Engine(fails=True)
    p = policy()
    with pytest.raises(EngineError):
        asyncio.run(publish(p, engine, 4))
    assert p.version == 3
