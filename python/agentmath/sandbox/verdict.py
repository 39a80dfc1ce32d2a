"""What became of a block, from the kernel's facts and the child's report."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import NamedTuple

from agentmath.sandbox import runner


class Report(NamedTuple):
    """What the child said about the block; believed only where it can gain nothing by lying."""

    outcome: int
    exit_code: int
    value: str | None
    error: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on one execution, as numbers."""

    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    output_bytes: int
    file_bytes: int

    @property
    def max_output_bytes(self) -> int:
        """Output of one stream that ends the execution."""
        return 8 * self.output_bytes


class Verdict(NamedTuple):
    """Fields of the same names in ToolResult."""

    status: str
    error: str | None = None
    value: str | None = None
    exit_code: int | None = None
    signal: int | None = None


_REPORTED_STATUS = {runner.FINISHED: "ok", runner.EXCEPTION: "exception", runner.MEMORY: "memory", runner.EXIT: "exit"}


def of_live_child(report: Report) -> Verdict:
    """A session's block ended and its process lives on: all there is to go by is the report."""
    status = _REPORTED_STATUS[report.outcome]
    exit_code = report.exit_code if report.outcome == runner.EXIT else None
    return Verdict(status, report.error or None, report.value, exit_code)


def of_dead_child(*, wait_status: int, kill_reason: str | None, why: str, report: Report | None) -> Verdict:
    """The process ended. kill_reason is the status for which the supervisor killed it, why the limit in words."""
    if os.WIFSIGNALED(wait_status):
        return _of_signal(os.WTERMSIG(wait_status), kill_reason, why)
    exit_code = os.WEXITSTATUS(wait_status)
    if kill_reason in ("output_limit", "protocol_error"):  # facts already, whether or not the kill came in time
        return Verdict(kill_reason, why, exit_code=exit_code)
    if report is not None and exit_code == 0:
        return Verdict("ok", None, report.value, exit_code)
    if report is not None and report.outcome in (runner.EXCEPTION, runner.MEMORY):
        return Verdict(_REPORTED_STATUS[report.outcome], report.error or None, exit_code=exit_code)
    return Verdict("exit", f"the process left with code {exit_code}", exit_code=exit_code)


def _of_signal(number: int, kill_reason: str | None, why: str) -> Verdict:
    if kill_reason is not None and number == signal.SIGKILL:
        return Verdict(kill_reason, why, signal=number)
    if number == signal.SIGXCPU:
        return Verdict("cpu_timeout", "the kernel's CPU limit was reached", signal=number)
    if number == signal.SIGSYS:
        return Verdict("syscall_violation", "a system call that no snippet has a reason for", signal=number)
    return Verdict("signal", f"ended by signal {number} ({_signal_name(number)})", signal=number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
