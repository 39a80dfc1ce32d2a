"""What `agentmath simulate` prints and draws."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentmath.config.dump import toml_value
from agentmath.config.scenario import Scenario
from agentmath.config.scenario_file import load_scenario, tables
from agentmath.orchestration.simulation import Result, Row, Simulated, simulate
from agentmath.telemetry.viewer.report import write_whole
from agentmath.telemetry.viewer.timeline import Strip, timeline_svg

_HEADS = (
    ("mode", "<"),
    ("policy", "<"),
    ("traj/s", ">"),
    ("factor", ">"),
    ("95 %", ">"),
    ("limit", ">"),
    ("of limit", ">"),
    ("hit", ">"),
    ("idle", ">"),
    ("traj/step", ">"),
    ("s/step", ">"),
    ("lag", ">"),
    ("", "<"),
)
_OFF_POLICY = "off-policy"


def run(name: str, overrides: Sequence[str], *, as_json: bool, picture: Path | None, show: bool) -> None:
    """Load, simulate, print; draw where a picture is asked for. Raises ConfigError, TrainingError."""
    scenario = load_scenario(name, overrides)
    if show:
        print("\n".join(scenario_lines(scenario)))
        return
    said = progress if sys.stderr.isatty() else None
    simulated = simulate(scenario, with_timelines=picture is not None, said=said)
    if as_json:
        print(json.dumps(as_record(name, scenario, simulated), indent=2))
    elif sys.stdout.isatty():
        print_table(simulated.rows, scenario)
    else:
        print("\n".join(table_lines(simulated.rows, scenario)))
    if picture is not None:
        write_whole(picture, draw(name, scenario, simulated))
        if not as_json:
            print(f"picture: {picture}")


def progress(row: str) -> None:
    """One line on stderr for each row that is done."""
    print(f"simulated {row}", file=sys.stderr, flush=True)


def as_record(name: str, scenario: Scenario, simulated: Simulated) -> dict[str, Any]:
    """Rows, with the scenario that gave them; numbers that are not finite become null."""
    rows = [dataclasses.asdict(row) for row in simulated.rows]
    for row in rows:
        row["factor_ci"] = [value if math.isfinite(value) else None for value in row["factor_ci"]]
        row["limit_per_second"] = row["limit_per_second"] if math.isfinite(row["limit_per_second"]) else None
    return {
        "scenario": name,
        "baseline": scenario.scheduling.baseline,
        "rows": rows,
        "num_events": simulated.num_events,
        "settings": scenario.model_dump(mode="json"),
    }


def table_lines(rows: Sequence[Row], scenario: Scenario) -> list[str]:
    """The table as plain text, and what its words mean."""
    cells = [[head for head, _ in _HEADS], *map(row_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            f"{cell:{align}{width}}" for cell, width, (_, align) in zip(row, widths, _HEADS, strict=True)
        ).rstrip()
        for row in cells
    ]
    return [*lines, "", *explanation(rows, scenario)]


def print_table(rows: Sequence[Row], scenario: Scenario) -> None:
    """The table on a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for head, align in _HEADS:
        table.add_column(head, justify="left" if align == "<" else "right", no_wrap=True)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.mode != row.mode:
            table.add_section()
        table.add_row(*row_cells(row), style=None if row.on_policy else "dim cyan")
    console = Console()
    console.print(table)
    console.print("\n".join(explanation(rows, scenario)), markup=False, highlight=False)


def row_cells(row: Row) -> list[str]:
    """One line of the table."""
    low, high = row.factor_ci
    band = f"{low:.2f}-{high:.2f}" if math.isfinite(high) else "one seed"
    return [
        row.mode,
        row.policy,
        f"{row.trajectories_per_second:.3g}",
        f"{row.factor:.2f}x",
        band,
        f"{row.limit_per_second:.3g}",
        f"{row.of_limit:.2f}",
        f"{row.hit:.2f}",
        f"{row.idle_share:.0%}",
        f"{row.trained_per_step:.0f}",
        duration(row.seconds_per_step),
        str(row.max_lag),
        "" if row.on_policy else _OFF_POLICY,
    ]


def duration(seconds: float) -> str:
    """Three digits, no exponent."""
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"


def explanation(rows: Sequence[Row], scenario: Scenario) -> list[str]:
    """What the columns are, and which row was best in which way."""
    lines = [
        f"factor: trajectories a second over {scenario.scheduling.baseline}, with its 95 % band over "
        f"{scenario.run.num_seeds} seeds; limit: no scheduler can do more with this work.",
    ]
    on_policy = [row for row in rows if row.on_policy]
    if on_policy:
        best = max(on_policy, key=lambda row: row.trajectories_per_second)
        lines.append(f"fastest on-policy: {best.mode}/{best.policy}, {best.of_limit:.0%} of its limit.")
    if len(on_policy) < len(rows):
        best = max((r for r in rows if not r.on_policy), key=lambda row: row.trajectories_per_second)
        lines.append(
            f"fastest off-policy: {best.mode}/{best.policy}, {best.of_limit:.0%} of its limit, on tokens up to "
            f"{best.max_lag} versions old: not like for like with on-policy rows."
        )
    return lines


def draw(name: str, scenario: Scenario, simulated: Simulated) -> str:
    """The picture of the first seed: as much time as the longest step takes of all rows but lockstep."""
    paired = list(zip(simulated.rows, simulated.first, strict=True))
    shown = [(row, result) for row, result in paired if row.mode != "lockstep"] or paired
    seconds = 1.1 * max(row.seconds_per_step for row, _ in shown)
    engines = "1 engine" if scenario.engines.count == 1 else f"{scenario.engines.count} engines"
    title = f"{name}: {engines}, the same {duration(seconds)} seconds under each mode and policy"
    return timeline_svg([strip(row, result) for row, result in paired], title=title, seconds=seconds)


def strip(row: Row, result: Result) -> Strip:
    """One row's part of the picture."""
    timeline = result["timeline"]
    begin = timeline["begin_seconds"]
    policy = "on-policy" if row.on_policy else f"off-policy, lag {row.max_lag}"
    return Strip(
        name=f"{row.mode}/{row.policy}",
        note=f"{row.factor:.2f}x, {row.of_limit:.0%} of the limit, {row.idle_share:.0%} idle, {policy}",
        bin_seconds=timeline["bin_seconds"],
        decode=timeline["decode"],
        prefill=timeline["prefill"],
        batch=timeline["batch"],
        steps=[r["end_seconds"] - begin for r in result["rounds"] if r["end_seconds"] > begin],
        idle_by_engine=result["idle_share"],
    )


def scenario_lines(scenario: Scenario) -> list[str]:
    """The scenario as TOML, with every setting."""
    lines: list[str] = []
    for section, table in tables(scenario):
        lines += ["", f"[[{section}]]" if section == "policies" else f"[{section}]"]
        lines += [f"{key} = {toml_value(getattr(table, key))}" for key in type(table).model_fields]
    return lines[1:]
