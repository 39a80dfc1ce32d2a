"""The loop of a run, and the trainer's work beside its rollouts."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from agentmath.orchestration import event_loop
from agentmath.orchestration.build import Parts


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ModuleType("uvloop")
    found.new_event_loop = asyncio.new_event_loop  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uvloop", found)
    monkeypatch.setattr(event_loop, "find_spec", lambda name: object())
    assert event_loop.loop_factory() is asyncio.new_event_loop
    monkeypatch.setattr(event_loop, "find_spec", lambda name: None)
    assert event_loop.loop_factory() is None


@pytest.mark.parametrize("pauses", [True, False])
def test_the_loop_turns_beside_the_trainer_only_where_rollouts_need_not_pause(pauses: bool) -> None:
    """The trainer's work ends once the loop has turned; where it cannot turn, it must not wait for that."""
    with asyncio.Runner() as runner:
        turned = threading.Event()
        parts: Any = SimpleNamespace(runner=runner, collector=SimpleNamespace(pauses=pauses))
        parts.run = lambda coroutine: Parts.run(parts, coroutine)
        runner.get_loop().call_soon(turned.set)
        assert Parts.beside_rollouts(parts, lambda: turned.wait(0 if pauses else 20)) is not pauses
