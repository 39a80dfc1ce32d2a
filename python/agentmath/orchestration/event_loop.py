"""The one event loop of a command: that of uvloop where it is installed, as it wakes tasks up faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from agentmath.orchestration.interrupts import cancelling_once

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What asyncio.Runner is to make its loop with; None for its own. Numbers do not depend on which it is."""
    if find_spec("uvloop") is None:
        return None
    return import_module("uvloop").new_event_loop


def run_cancellably(runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a runner's event loop; Ctrl-C cancels it and is raised as KeyboardInterrupt."""
    results: list[T] = []
    signals: list[str] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        with cancelling_once(task, signals):
            results.append(await coroutine)

    # Not as main's own result: the runner puts its signal handlers back afterwards, and the standard library then
    # writes out the finished task with its result, which for a step's trajectories takes as long as sampling them.
    try:
        runner.run(main())
    except asyncio.CancelledError:
        if not signals:
            raise
    if signals:
        raise KeyboardInterrupt(signals[0])
    return results[0]
