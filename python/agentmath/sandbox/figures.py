"""What was measured of each execution, as figures: percentiles, rates, ratios, and a table of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmath.sandbox.baselines import Timing

RATIOS = (
    ("parked_print", "subprocess_print"),
    ("parked_sympy", "subprocess_sympy"),
    ("session_block", "subprocess_print"),
    ("fork_print", "subprocess_print"),
    ("parked_print", "bubblewrap_print"),
    ("parked_print", "fork_print"),
)
"""(row, what it is compared with): how many times faster the row's median is."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was measured of one row."""

    alone: list[Timing] = field(default_factory=list[Timing])
    """Executions while nothing else ran, or the calls of all bursts."""
    beside: list[float] = field(default_factory=list[float])
    """Seconds of executions while the other lanes were busy too."""
    lane_seconds: float = 0.0
    """Wall time in which all of `beside` were made."""
    private_mib: float | None = None


def summarise(tallies: Mapping[str, Tally], *, bursts: Sequence[float], num_lanes: int) -> dict[str, Any]:
    """{"rows": {name: figures}, "ratios": {name: number}} of what was measured; bursts: wall seconds of each.

    A figure that does not apply is None; so is a time of a row without samples. Ratios, each only where both sides
    were measured: A_vs_B is the median of B over that of A, how many times faster A is; parked_print_in_empty_forks
    counts calibrations; burst_N_total_vs_queue is the median wall time of a burst over what the queue itself forces,
    N x median time of parked_print with all workers busy / workers; burst_N_p99_vs_queue is the burst's p99 over 0.99
    of that. Both are 1 when the queue costs nothing.
    """
    rows = {name: row(tally) for name, tally in tallies.items()}
    medians = {
        name: percentile([timing.seconds for timing in tally.alone], 50)
        for name, tally in tallies.items()
        if tally.alone
    }
    ratios = {
        f"{ours}_vs_{theirs}": medians[theirs] / medians[ours]
        for ours, theirs in RATIOS
        if ours in medians and theirs in medians
    }
    if "parked_print" in medians and "empty_fork" in medians:
        ratios["parked_print_in_empty_forks"] = medians["parked_print"] / medians["empty_fork"]
    name = next((name for name in medians if name.startswith("burst_")), None)
    if name is not None and bursts:
        total, size = statistics.median(bursts), int(name.removeprefix("burst_"))
        rows[name]["exec_per_second"] = _rounded(size / total)
        single = tallies["parked_print"].beside if "parked_print" in tallies else []
        if single:
            forced = size * statistics.median(single) / num_lanes
            ratios[f"{name}_total_vs_queue"] = total / forced
            last = percentile([timing.seconds for timing in tallies[name].alone], 99)
            ratios[f"{name}_p99_vs_queue"] = last / (0.99 * forced)
    return {"rows": rows, "ratios": {name: _rounded(value) for name, value in ratios.items()}}


def row(tally: Tally) -> dict[str, float | int | None]:
    """The figures of one row; milliseconds, executions per second, MiB."""
    seconds = [timing.seconds for timing in tally.alone]
    milliseconds = {
        f"p{share}_ms": _rounded(1e3 * percentile(seconds, share)) if seconds else None for share in (50, 90, 99)
    }
    cpu = [timing.cpu_seconds for timing in tally.alone if timing.cpu_seconds is not None]
    rate = len(tally.beside) / tally.lane_seconds if tally.lane_seconds else None
    return {
        **milliseconds,
        "exec_per_second": _rounded(rate),
        "child_cpu_ms": _rounded(1e3 * statistics.median(cpu)) if cpu else None,
        "private_mib": _rounded(tally.private_mib),
        "samples": len(seconds),
    }


def percentile(values: Sequence[float], share: int) -> float:
    """Smallest value that at least share % of the values do not exceed (nearest rank): one that was really seen."""
    ranked = sorted(values)
    return ranked[max(math.ceil(share * len(ranked) / 100), 1) - 1]


def lines(result: Mapping[str, Any]) -> list[str]:
    """The result of `measure` for a person."""
    head = ["", "p50 ms", "p90 ms", "p99 ms", "per second", "CPU ms", "private MiB", "samples"]
    keys = ["p50_ms", "p90_ms", "p99_ms", "exec_per_second", "child_cpu_ms", "private_mib", "samples"]
    table = [head] + [[name, *(_shown(figures[key]) for key in keys)] for name, figures in result["rows"].items()]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    printed = [
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in table
    ]
    printed += ["", *(f"{name}: {value:.3g}" for name, value in result["ratios"].items())]
    printed += [f"left out: {name}: {reason}" for name, reason in result["left_out"].items()]
    about = result["machine"]
    load = f"load {about['load_average_before']:.2f} before, {about['load_average']:.2f} after"
    return [*printed, "", f"{about['processor']}, {about['cores']} cores, {about['system']}, {load}"]


def _rounded(value: float | None) -> float | None:
    """Five digits are more than any of this is worth."""
    return None if value is None else float(f"{value:.5g}")


def _shown(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.0f}" if value >= 100 else f"{value:.3g}"
