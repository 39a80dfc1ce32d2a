"""Results of evaluations as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from agentmath.core.types import JSON
from agentmath.orchestration.evaluating import Evaluation


def print_tables(done: Sequence[Evaluation]) -> None:
    """One line a set and mode, then its figures, levels and bands."""
    console = Console(highlight=False, soft_wrap=True)
    for each in done:
        results = each.results
        failed = f", {results['num_failed']} lost to the infrastructure" if results["num_failed"] else ""
        console.print(
            f"eval  {each.set_name} ({each.mode}): accuracy {results['accuracy']:.3f} "
            f"[{results['accuracy_low']:.3f}, {results['accuracy_high']:.3f}] on {results['num_problems']} held-out "
            f"tasks, tool use {results['tool_use']:.2f}, {results['seconds']:.1f} s{failed}",
            markup=False,
        )
        console.print(_figures(results))
        for kind, parts in results["by"].items():
            console.print(_breakdown(kind, parts, results["num_samples"]))
        if (difference := results.get("difference_to_r_only")) is not None:
            console.print(_difference(difference))
        console.print(f"      {each.folder}\n", markup=False)


def _figures(results: JSON) -> Table:
    table = _table("figure", "value", "95 % interval", "problems")
    for kind in ("estimates", "shares", "means"):
        for name, estimate in results[kind].items():
            if kind != "shares" or estimate["value"] or name in ("failed_block", "invented_output"):
                table.add_row(name, *_cells(estimate))
    table.add_row("tool_seconds", f"{results['tool_seconds']:.4f}")
    table.add_row("seconds_per_problem", f"{results['seconds_per_problem']:.3f}")
    for name, count in sorted(results["requests"].items()):
        table.add_row(name, str(count))
    return table


def _breakdown(kind: str, parts: JSON, num_samples: int) -> Table:
    table = _table(kind, f"avg@{num_samples}", "95 % interval", "problems")
    for name, figures in parts.items():
        if (estimate := figures["estimates"].get(f"avg@{num_samples}")) is not None:
            table.add_row(name, *_cells(estimate))
    return table


def _difference(difference: JSON) -> Table:
    table = _table("r_code - r_only", "difference", "95 % interval", "problems")
    rows = {"all": difference["all"], **difference.get("by_band", {})}
    for name, estimate in rows.items():
        if estimate is not None:
            table.add_row(name, *_cells(estimate))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", min_width=20 if number == 0 else 0)
    return table


def _cells(estimate: JSON) -> tuple[str, str, str]:
    digits = 3 if abs(estimate["value"]) < 10 else 1
    low, high = (f"{estimate[end]:.{digits}f}" for end in ("low", "high"))
    return f"{estimate['value']:.{digits}f}", f"[{low}, {high}]", str(estimate["num_problems"])
