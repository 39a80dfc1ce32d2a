"""How a person or a scheduler stops a run: Ctrl-C (SIGINT) or SIGTERM, heard once.

The first signal begins a clean stop. From then on both are ignored: a second Ctrl-C in the midst of closing would leave
half of it undone. A signal that was ignored when the program started (nohup, a background job) stays so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Task

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def raised_once() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt with its name, "Ctrl-C" or "SIGTERM"."""

    def stop(name: str) -> None:
        raise KeyboardInterrupt(name)

    with _heard_once(stop):
        yield


@contextmanager
def cancelling_once(task: Task[Any], names: list[str]) -> Iterator[None]:
    """The first signal cancels a task of the running loop and is added to names."""

    def stop(name: str) -> None:
        names.append(name)
        task.cancel()
        # A loop that waits for files alone does not notice what a signal handler did.
        task.get_loop().call_soon_threadsafe(lambda: None)

    with _heard_once(stop):
        yield


@contextmanager
def _heard_once(stop: Callable[[str], None]) -> Iterator[None]:
    """Call stop with the name of the first signal; unless one came, what was before is put back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        stop("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)

    before = {each: signal.getsignal(each) for each in SIGNALS}
    before = {each: handler for each, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for each in before:
        signal.signal(each, hear)
    try:
        yield
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is hear:
                signal.signal(each, handler)
