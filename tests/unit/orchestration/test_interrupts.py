"""Ctrl-C and SIGTERM are heard once, in plain code and in a running loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from agentmath.orchestration.interrupts import raised_once

STATES = textwrap.dedent("""
    import asyncio, os, signal, sys
    from types import SimpleNamespace
    from agentmath.orchestration.build import Parts
    from agentmath.orchestration.interrupts import raised_once

    closed = []

    async def work():
        try:
            await asyncio.sleep(30)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
            closed.append("work")

    try:
        with raised_once(), asyncio.Runner() as runner:
            try:
                runner.get_loop().call_later(0.05, os.kill, os.getpid(), signal.{name})
                Parts.run(SimpleNamespace(runner=runner), work())
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                runner.run(asyncio.sleep(0.05))
                closed.append("rest")
    except KeyboardInterrupt as error:
        print(*error.args, *closed)
""")


@pytest.mark.parametrize(("name", "said"), [("SIGINT", "Ctrl-C"), ("SIGTERM", "SIGTERM")])
def test_later_signals_do_not_disturb_what_is_being_closed(name: str, said: str) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", STATES.replace("{name}", name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (f"{said} work rest\n", "", 0)


def test_without_a_signal_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with raised_once():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_signal_that_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with raised_once():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_outside_of_the_main_thread_nothing_is_changed() -> None:
    def body() -> None:
        with raised_once():
            pass

    asyncio.run(asyncio.to_thread(body))
