from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from agentmath.telemetry.quiet_stream import QuietStream


class Broken(io.StringIO):
    """A stream whose reader has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def write(self, text: str) -> int:
        self.attempts += 1
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_that_has_gone_is_asked_once_and_then_forgotten() -> None:
    broken = Broken()
    stream = QuietStream(broken)
    assert stream.write("abc") == 3
    stream.write_line("def")
    stream.flush()
    assert broken.attempts == 1


def test_closed_and_missing_streams_swallow_everything() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (QuietStream(closed), QuietStream(None)):
        stream.write_line("x")
        assert not stream.isatty()
        assert not stream.is_terminal


def test_what_the_encoding_cannot_say_becomes_a_question_mark() -> None:
    raw = io.BytesIO()
    text = io.TextIOWrapper(raw, encoding="ascii")
    QuietStream(text).write_line("a\u2581b\ud800")
    assert raw.getvalue() == b"a?b?\n"


@pytest.mark.parametrize("mode", ["plain", "live"])
def test_a_pipe_that_closes_early_ends_a_run_with_success(mode: str) -> None:
    code = f"""
from agentmath.config.telemetry import TelemetrySection
from agentmath.telemetry.progress import Progress
with Progress(TelemetrySection(progress="{mode}"), 3000, "rl") as progress:
    for step in range(1, 3001):
        progress.update(step, {{"accuracy": 0.5, "loss": 1.0}})
        progress.message("x" * 100)
"""
    command = [sys.executable, "-c", code]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(timeout=60), errors) == (0, b"")
