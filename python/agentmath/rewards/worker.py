"""The program of a grading worker: reads [gold, prediction, section] a line, writes [match, rule, reason] a line.

python -m agentmath.rewards.worker ANSWER_SECONDS MEMORY_BYTES
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import signal
import sys

from agentmath.config.grading import GradingSection
from agentmath.rewards.answer import Verdict, failed, grade_answer
from agentmath.rewards.workers import WALL_FACTOR

_LIBRARIES = ("sympy", "math_verify")


def main(arguments: list[str]) -> None:
    """Answer until standard input ends."""
    seconds, memory_bytes = float(arguments[0]), int(arguments[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Their default action ends the process even in the middle of one long computation in C.
    for clock in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(clock, signal.SIG_DFL)
    for limit, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    replies = os.dup(1)
    os.dup2(2, 1)
    missing = load_libraries()
    for line in sys.stdin.buffer:
        gold, prediction, settings = json.loads(line.decode("utf-8", "surrogatepass"))
        set_clocks(seconds)
        verdict = missing or verdict_within_memory(gold, prediction, GradingSection.model_validate(settings))
        set_clocks(0)
        os.write(replies, json.dumps([verdict.match, verdict.rule, verdict.reason]).encode() + b"\n")
        if verdict.rule == "memory":
            return


def set_clocks(seconds: float) -> None:
    """End this process after so much processor time, or WALL_FACTOR times that by the clock; 0 stops both.

    Processor time first, so that a loaded machine changes no verdict.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL_FACTOR * seconds)


def load_libraries() -> Verdict | None:
    """Import what takes long before any clock runs; the verdict on everything when it is not there."""
    logging.disable(logging.CRITICAL)
    try:
        for name in _LIBRARIES:
            importlib.import_module(name)
    except ImportError as fault:
        return failed(None, f"the answer is a formula and {fault}: pip install math-verify")
    return None


def verdict_within_memory(gold: str, prediction: str, section: GradingSection) -> Verdict:
    """grade_answer, with running out of memory as a verdict."""
    try:
        return grade_answer(gold, prediction, section)
    except MemoryError:
        return Verdict(
            match=None, extracted=None, rule="memory", reason="the answer needs more memory than it may have"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
