"""What a person sees while a run goes on: a live display on a terminal, one line a step elsewhere, or nothing.

A display never stops a run: when its stream is closed or cannot show a character, it goes on quietly.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, SupportsFloat, TextIO

from agentmath.config.telemetry import TelemetrySection
from agentmath.telemetry.quiet_stream import QuietStream
from agentmath.telemetry.words import duration, number, printable, sparkline

if TYPE_CHECKING:
    from agentmath.telemetry.live import LiveDisplay

SHOWN = {
    "loss": "loss",
    "held_out_loss": "held out",
    "reward": "reward",
    "accuracy": "accuracy",
    "tool_calls": "calls",
    "sampled_tokens": "tokens",
    "tokens_per_second": "tokens/s",
}
"""Metrics that are shown, and what they are called."""
_HISTORY = 24
_RATE_STEPS = 10


class Progress:
    """Shows how far a loop is. A context manager; update and message may also be called outside of it.

    The live display draws from a thread of its own: what it reads is replaced whole, never changed in place.
    """

    def __init__(
        self,
        section: TelemetrySection,
        total_steps: int,
        title: str,
        *,
        first_step: int = 0,
        every_steps: int = 1,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """first_step: steps done before this process began; every_steps: plain mode shows every n-th and the last."""
        self.title = printable(title)
        self.total_steps = total_steps
        self.step = first_step
        self.values: dict[str, float] = {}
        self.accuracies: tuple[float, ...] = ()
        self._stream = QuietStream(sys.stdout if stream is None else stream)
        self._asked = section.progress
        self._mode = _resolve(section.progress, self._stream)
        self._every_steps = max(every_steps, 1)
        self._clock = clock
        self._started = clock()
        self._times = deque([(first_step, self._started)], maxlen=_RATE_STEPS + 1)
        self._live: LiveDisplay | None = None

    def update(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Step `step` (counted from 1) is done; values are its metrics, in any number."""
        self.step = step
        self.values = {name: float(value) for name, value in values.items() if isinstance(value, SupportsFloat)}
        if "accuracy" in self.values:
            self.accuracies = (*self.accuracies, self.values["accuracy"])[-_HISTORY:]
        self._times.append((step, self._clock()))
        if self._live is not None:
            self._live.refresh()
        elif self._mode != "off" and (step % self._every_steps == 0 or step >= self.total_steps):
            self._stream.write_line(self.plain_line())

    def message(self, text: str) -> None:
        """Say something once; control characters are shown, not obeyed. Nothing is said when progress is off."""
        if self._live is not None:
            self._live.message(printable(text))
        elif self._mode != "off":
            self._stream.write_line(printable(text))

    @property
    def elapsed_seconds(self) -> float:
        return self._clock() - self._started

    @property
    def remaining_seconds(self) -> float | None:
        """From the pace of the last steps; None before the first."""
        (first, began), (last, ended) = self._times[0], self._times[-1]
        if last <= first:
            return None
        left = max(self.total_steps - self.step, 0) * (ended - began) / (last - first)
        return max(left - (self._clock() - ended), 0.0)

    def shown(self) -> list[tuple[str, str]]:
        """(name, text) of the metrics that are present."""
        return [(label, number(self.values[name])) for name, label in SHOWN.items() if name in self.values]

    def stages(self) -> list[tuple[str, float]]:
        """(stage, seconds) of the last step, in the order in which they were reported."""
        begin = len("seconds/")
        return [(k[begin:], v) for k, v in self.values.items() if k.startswith("seconds/") and k != "seconds/step"]

    def plain_line(self) -> str:
        """The line of plain mode."""
        parts = [f"{self.title} {self.step}/{self.total_steps}"]
        parts += [f"{label} {text}" for label, text in self.shown()]
        if stages := " ".join(f"{name} {seconds:.2f}" for name, seconds in self.stages()):
            parts.append(f"[{stages} s]")
        if (left := self.remaining_seconds) is not None and self.step < self.total_steps:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def sparkline(self) -> str:
        """Accuracy of the last steps between 0 and 1."""
        return sparkline(self.accuracies)

    def __enter__(self) -> Progress:
        if self._mode == "live":
            from agentmath.telemetry.live import LiveDisplay

            self._live = LiveDisplay(self, self._stream)
            self._live.start()
        elif self._asked == "live" and self._mode == "plain":
            self.message("no terminal to draw on: one line a step instead of the live display")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if self._live is not None:
            self._live.stop()
            self._live = None
        return False


def _resolve(asked: str, stream: QuietStream) -> Literal["live", "plain", "off"]:
    """The mode; a live display that was asked for is shown only where a cursor can move."""
    if asked == "off" or asked == "plain":
        return asked
    return "live" if stream.is_terminal else "plain"
