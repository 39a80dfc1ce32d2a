from __future__ import annotations

import signal

import pytest

from agentmath.sandbox import runner
from agentmath.sandbox.verdict import Report, Verdict, of_dead_child, of_live_child


def exited(code: int) -> int:
    return code << 8


def dead(wait_status: int, report: Report | None = None, reason: str | None = None) -> Verdict:
    return of_dead_child(wait_status=wait_status, kill_reason=reason, why="because", report=report)


FINISHED = Report(runner.FINISHED, 0, "3", "")
RAISED = Report(runner.EXCEPTION, 1, None, "ValueError: x")


def test_exit_zero_with_a_report_is_ok() -> None:
    assert dead(exited(0), FINISHED) == Verdict("ok", None, "3", 0)


def test_exit_zero_without_a_report_is_not_ok() -> None:
    assert dead(exited(0)).status == "exit"


def test_a_report_of_success_does_not_outweigh_the_exit_code() -> None:
    assert dead(exited(4), FINISHED).status == "exit"


def test_a_raised_exception_is_told_in_its_own_words() -> None:
    assert dead(exited(1), RAISED) == Verdict("exception", "ValueError: x", None, 1)


def test_an_uncaught_memory_error_has_a_status_of_its_own() -> None:
    assert dead(exited(1), Report(runner.MEMORY, 1, None, "MemoryError")).status == "memory"


@pytest.mark.parametrize("reason", ["cpu_timeout", "wall_timeout", "output_limit", "cancelled"])
def test_our_kill_is_named_by_its_reason(reason: str) -> None:
    assert dead(signal.SIGKILL, reason=reason) == Verdict(reason, "because", signal=9)


def test_a_kill_that_was_not_ours_is_a_signal() -> None:
    assert dead(signal.SIGKILL).status == "signal"
    assert dead(signal.SIGSEGV, reason="wall_timeout").status == "signal"


def test_the_kernels_own_limits_have_names() -> None:
    assert dead(signal.SIGXCPU).status == "cpu_timeout"
    assert dead(signal.SIGSYS).status == "syscall_violation"


def test_an_exit_that_came_before_the_kill_keeps_its_status_except_for_facts_already_seen() -> None:
    assert dead(exited(0), FINISHED, "wall_timeout").status == "ok"
    assert dead(exited(0), FINISHED, "output_limit").status == "output_limit"
    assert dead(exited(0), None, "protocol_error").status == "protocol_error"


def test_a_live_childs_block_is_known_by_its_report_alone() -> None:
    assert of_live_child(FINISHED) == Verdict("ok", None, "3")
    assert of_live_child(RAISED) == Verdict("exception", "ValueError: x")
    assert of_live_child(Report(runner.EXIT, 3, None, "")) == Verdict("exit", None, None, 3)
