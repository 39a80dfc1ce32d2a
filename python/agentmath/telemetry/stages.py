"""How long each stage of a step takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PREFIX = "seconds/"


class StageClock:
    """Seconds per stage since the last take().

    Stages may be nested: time inside an inner stage is the inner one's alone, so that the stages of a step add up to no
    more than the step. One clock belongs to one thread of control.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._taken = self._last = clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the body; it counts also when it raises."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def take(self) -> dict[str, float]:
        """{"seconds/STAGE": s, ..., "seconds/step": all time since the last take}, and begin anew."""
        self._charge()
        now = self._last
        taken = {PREFIX + name: seconds for name, seconds in self._seconds.items()}
        taken[PREFIX + "step"] = now - self._taken
        self._seconds, self._taken = {}, now
        return taken

    def _charge(self) -> None:
        """Give the time since the last mark to the innermost open stage."""
        now = self._clock()
        if self._open:
            name = self._open[-1]
            self._seconds[name] = self._seconds.get(name, 0.0) + now - self._last
        self._last = now
