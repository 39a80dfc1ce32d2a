from __future__ import annotations

import io
import math

import numpy as np
import pytest

from agentmath.config.telemetry import TelemetrySection
from agentmath.telemetry.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def made(mode: str, stream: io.StringIO, total: int = 10, **more: int) -> tuple[Progress, Clock]:
    clock = Clock()
    return Progress(
        TelemetrySection.model_validate({"progress": mode}), total, "rl", stream=stream, clock=clock, **more
    ), clock


def test_plain_mode_says_one_line_a_step() -> None:
    out = io.StringIO()
    progress, clock = made("plain", out)
    with progress:
        for step in (1, 2):
            clock.now += 2
            progress.update(step, {"accuracy": 0.25, "tool_calls": 1.0, "seconds/rollout": 1.5, "seconds/step": 2.0})
    assert out.getvalue().splitlines() == [
        "rl 1/10  accuracy 0.250  calls 1.00  [rollout 1.50 s]  0:18 left",
        "rl 2/10  accuracy 0.250  calls 1.00  [rollout 1.50 s]  0:16 left",
    ]


def test_plain_mode_can_leave_steps_out_but_never_the_last() -> None:
    out = io.StringIO()
    progress, _ = made("plain", out, total=7, every_steps=3)
    for step in range(1, 8):
        progress.update(step, {})
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["3/7", "6/7", "7/7"]


def test_auto_is_plain_where_no_terminal_is() -> None:
    out = io.StringIO()
    progress, _ = made("auto", out)
    with progress:
        progress.update(1, {"reward": 1.0})
    assert "\x1b" not in out.getvalue()
    assert "reward 1.00" in out.getvalue()


def test_a_live_display_without_a_terminal_says_why_it_is_plain() -> None:
    out = io.StringIO()
    progress, _ = made("live", out)
    with progress:
        pass
    assert "no terminal" in out.getvalue()


def test_off_says_nothing() -> None:
    out = Terminal()
    progress, _ = made("off", out)
    with progress:
        progress.update(1, {"accuracy": 1.0})
        progress.message("hello")
    assert out.getvalue() == ""


def test_the_pace_is_that_of_this_process_when_a_run_goes_on() -> None:
    progress, clock = made("off", io.StringIO(), total=100, first_step=90)
    assert progress.remaining_seconds is None
    clock.now = 3.0
    progress.update(91, {})
    assert progress.remaining_seconds == pytest.approx(27.0)
    clock.now = 10.0
    assert progress.remaining_seconds == pytest.approx(20.0)
    clock.now = 1000.0
    assert progress.remaining_seconds == 0.0


def test_the_live_display_shows_values_stages_and_the_line_of_accuracies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    out = Terminal()
    progress, _ = made("auto", out)
    with progress:
        progress.message("[bold] stays as it is\x1b[2J")
        progress.update(1, {"accuracy": 0.0, "tokens_per_second": np.float32(8123), "seconds/train": 0.25})
        progress.update(2, {"accuracy": 1.0, "tokens_per_second": np.float32(8123), "seconds/train": 0.25})
    text = out.getvalue()
    assert "[bold] stays as it is\\x1b[2J" in text
    for part in ("2/10", "8,123", "\u2581\u2588", "train 0.25 s"):
        assert part in text


@pytest.mark.parametrize("columns", ["1", "9", "400"])
def test_no_width_and_no_value_breaks_the_live_display(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", columns)
    progress, _ = made("auto", Terminal(), total=0)
    with progress:
        progress.update(3, {"accuracy": math.nan, "reward": -math.inf, "seconds/x": math.inf})
        progress.update(4, {"accuracy": "no number"})  # pyright: ignore[reportArgumentType]


def test_ctrl_c_passes_through_the_live_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress, _ = made("auto", out)
    with pytest.raises(KeyboardInterrupt), progress:
        progress.update(1, {})
        raise KeyboardInterrupt
    assert out.getvalue().endswith("\x1b[?25h")
