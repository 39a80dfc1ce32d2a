"""agentmath view: a run directory becomes one self-contained HTML file.

Everything that a model or a data set has written reaches the page as JSON in which no tag can be closed; the script
shows it as text only, and the page's content policy allows no other script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentmath.core.errors import ConfigError
from agentmath.telemetry.events import Event, read_metrics
from agentmath.telemetry.run_dir import METRICS, RECIPE, REPORT, SUMMARY
from agentmath.telemetry.viewer.charts import is_number, sections
from agentmath.telemetry.viewer.selection import select_trajectories

_SCRIPTS = ("svg.js", "chart.js", "section.js", "trajectory.js", "reader.js", "page.js")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def write_report(run_dir: Path) -> Path:
    """Write RUN_DIR/report.html and return its path. May be called while the run goes on.

    Raises ConfigError if the file cannot be written, DataError if metrics.jsonl is damaged.
    """
    report = run_dir / REPORT
    write_whole(report, render(report_data(run_dir)))
    return report


def write_whole(path: Path, text: str) -> None:
    """ASCII text into a file that is the old one or the new one, never half of either. Raises ConfigError."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        unfinished.write_text(text, encoding="ascii")
        os.replace(unfinished, path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise ConfigError(f"cannot write {path}: {error.strerror or error}.") from error


def report_data(run_dir: Path) -> dict[str, Any]:
    """Everything the page shows, as JSON would hold it."""
    metrics = run_dir / METRICS
    events = read_metrics(metrics) if metrics.exists() else []
    summary, notes = _read_summary(run_dir / SUMMARY)
    trajectories, more_notes = select_trajectories(run_dir)
    recipe = run_dir / RECIPE
    return {
        "name": run_dir.absolute().name,
        "finished": bool(summary),
        "tiles": tiles(summary, events),
        "sections": sections(events),
        "evaluations": _evaluations(events),
        "trajectories": trajectories,
        "notes": notes + more_notes,
        "recipe": recipe.read_text(encoding="utf-8", errors="replace") if recipe.exists() else "",
    }


def render(data: dict[str, Any]) -> str:
    """The page: ASCII only, so that no encoding can be guessed wrongly."""
    folder = files("agentmath.telemetry.viewer")
    script = "\n".join((folder / name).read_text(encoding="ascii") for name in _SCRIPTS)
    style = (folder / "page.css").read_text(encoding="ascii")
    page = (folder / "page.html").read_text(encoding="ascii")
    title = html.escape(data["name"]).encode("ascii", "xmlcharrefreplace").decode()
    parts = {"TITLE": title, "SCRIPT_HASH": _hash(script), "STYLE_HASH": _hash(style), "STYLE": style, "SCRIPT": script}
    before, after = page.split("{{DATA}}")
    for name, text in parts.items():
        before, after = before.replace("{{" + name + "}}", text), after.replace("{{" + name + "}}", text)
    return before + to_json(data) + after


def to_json(data: dict[str, Any]) -> str:
    """JSON that may stand inside a script element: ASCII, without any sign that HTML knows."""
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def _finite(value: Any) -> Any:
    """Numbers that JSON cannot hold become texts."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read_summary(path: Path) -> tuple[dict[str, Any], list[str]]:
    if not path.exists():
        return {}, []
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(summary, dict):
            return summary, []
    except ValueError:
        pass
    return {}, [f"{path.name} could not be read and is left out."]


def tiles(summary: dict[str, Any], events: Sequence[Event]) -> list[dict[str, Any]]:
    """The run in a row of numbers: [{"label", "unit", "before", "after"}]; before only where something moved."""
    row = []
    for label, name in (("accuracy", "accuracy"), ("tool use", "tool_use")):
        before, after = summary.get(f"{name}_before"), summary.get(f"{name}_after")
        if not is_number(after):
            before, after = _ends(events, "rl", name)
        if is_number(after):
            row.append(
                {"label": label, "unit": "share", "before": before if is_number(before) else None, "after": after}
            )
    if not row:
        before, after = _ends(events, "sft", "loss")
        if after is not None:
            row.append({"label": "supervised loss", "unit": "", "before": before, "after": after})
    steps = {kind: max((e["step"] for e in events if e["kind"] == kind), default=None) for kind in ("rl", "sft")}
    seconds = summary.get("train_seconds", max((e.get("time_seconds") or 0 for e in events), default=None))
    speed = summary.get("tokens_per_second", _ends(events, "rl", "tokens_per_second")[1])
    plain = [("steps", "", steps["rl"]), ("warm-up steps", "", steps["sft"]), ("time", "seconds", seconds)]
    plain += [("tokens/s", "", speed), ("seed", "", summary.get("seed"))]
    return row + [{"label": n, "unit": unit, "after": value} for n, unit, value in plain if is_number(value)]


def _ends(events: Sequence[Event], kind: str, name: str) -> tuple[float | None, float | None]:
    """First and last finite value of a metric."""
    values = [e[name] for e in events if e["kind"] == kind and is_number(e.get(name))]
    return (values[0], values[-1]) if values else (None, None)


def _evaluations(events: Sequence[Event]) -> dict[str, Any]:
    lines = [e for e in events if e["kind"] == "eval"]
    names = dict.fromkeys(n for e in lines for n in e if n not in ("kind", "time_seconds", "nonfinite"))
    ends = {name + end for name in names for end in ("_low", "_high")}
    columns = [n for n in names if n not in ends and not (n == "name" and all(e.get("set") == e.get(n) for e in lines))]
    return {"names": columns, "rows": [[_with_interval(e, n) for n in columns] for e in lines]}


def _with_interval(event: Event, name: str) -> Any:
    """The value, and behind it the interval if the event has one."""
    value, low, high = event.get(name), event.get(name + "_low"), event.get(name + "_high")
    if is_number(value) and is_number(low) and is_number(high):
        return f"{value:.3f} [{low:.3f}, {high:.3f}]"
    return value
