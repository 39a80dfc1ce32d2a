"""One static picture of a run, for pages that run no script: accuracy and tool use over steps, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from agentmath.core.errors import ConfigError
from agentmath.telemetry.events import read_metrics
from agentmath.telemetry.run_dir import METRICS, missing_run
from agentmath.telemetry.viewer.charts import curve, is_number
from agentmath.telemetry.viewer.report import write_whole

Curve = tuple[Sequence[float], Sequence[float]]
"""(steps, shares between 0 and 1), equally long."""

WIDTH, HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 130, 44, 40
_LABEL_GAP = 18
_STYLE = """
  text { font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; fill: #5d5e59; }
  .title { font-weight: 600; font-size: 15px; fill: #20211f; }
  .back { fill: #ffffff; } .rule { stroke: #e3e3dd; } .base { stroke: #9a9b95; }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
  .c0 { stroke: #2f6fde; } .c1 { stroke: #d97a0d; } .c2 { stroke: #1a8f57; } .c3 { stroke: #8e55d9; }
  .label { font-weight: 600; stroke: none; }
  .label.c0 { fill: #2f6fde; } .label.c1 { fill: #d97a0d; } .label.c2 { fill: #1a8f57; } .label.c3 { fill: #8e55d9; }
  @media (prefers-color-scheme: dark) {
    text { fill: #a5a69f; } .title { fill: #ebebe5; } .back { fill: #16171a; } .rule { stroke: #34353a; }
    .c0 { stroke: #7cacf8; } .c1 { stroke: #f0a54a; } .c2 { stroke: #5cc98e; } .c3 { stroke: #b795f5; }
    .label.c0 { fill: #7cacf8; } .label.c1 { fill: #f0a54a; } .label.c2 { fill: #5cc98e; } .label.c3 { fill: #b795f5; }
    .label { stroke: none; }
  }"""


def write_picture(run_dir: Path, out: Path) -> Path:
    """Draw the run's accuracy and tool use during reinforcement learning into out, an .svg file.

    Raises ConfigError if run_dir holds no such run or out cannot be written.
    """
    metrics = run_dir / METRICS
    if not metrics.is_file():
        raise ConfigError(f"no picture to draw: {missing_run(run_dir)}")
    lines = [e for e in read_metrics(metrics) if e["kind"] == "rl"]
    curves: dict[str, Curve] = {}
    for name, key in (("accuracy", "accuracy"), ("tool use", "tool_use")):
        drawn = curve([e for e in lines if is_number(e.get(key))], key)
        if drawn["x"]:
            curves[name] = (drawn["x"], drawn["y"])
    if not curves:
        raise ConfigError(f"no picture to draw: {metrics} holds no accuracy of a step of reinforcement learning.")
    write_whole(out, curves_svg(curves, title="Accuracy and tool use by training step"))
    return out


def curves_svg(curves: Mapping[str, Curve], *, title: str) -> str:
    """An SVG document: one line per curve, named with its last value at its right end; light and dark."""
    steps = [x for xs, _ in curves.values() for x in xs]
    low, high = min(steps), max(steps)

    def x_of(step: float) -> float:
        return _LEFT + (step - low) / ((high - low) or 1) * (WIDTH - _LEFT - _RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{_text(title)}</title><style>{_STYLE}\n</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        f'<text class="title" x="{_LEFT}" y="26">{_text(title)}</text>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y, kind = _y(share), "rule" if share else "base"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for step in _round_steps(low, high):
        parts.append(f'<text x="{x_of(step):.1f}" y="{HEIGHT - 16}" text-anchor="middle">{step}</text>')
    for index, (xs, ys) in enumerate(curves.values()):
        line = " ".join(f"{x_of(x):.1f},{_y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        parts.append(f'<polyline class="curve c{index % 4}" points="{line}"/>')
    parts += _labels(curves)
    return "\n".join([*parts, "</svg>", ""])


def _labels(curves: Mapping[str, Curve]) -> list[str]:
    """Names at the right ends, moved apart where ends lie close."""
    ends = sorted((_y(ys[-1]), index, name, ys[-1]) for index, (name, (_, ys)) in enumerate(curves.items()))
    lowest = HEIGHT - _BOTTOM
    placed: list[str] = []
    next_free = float(_TOP)
    for rank, (y, index, name, last) in enumerate(ends):
        room_below = _LABEL_GAP * (len(ends) - 1 - rank)
        y = max(min(y, lowest - room_below), next_free)
        next_free = y + _LABEL_GAP
        text = f"{_text(name)} {last:.0%}"
        placed.append(f'<text class="label c{index % 4}" x="{WIDTH - _RIGHT + 10}" y="{y + 4:.1f}">{text}</text>')
    return placed


def _round_steps(low: float, high: float) -> list[int]:
    """About six multiples of 1, 2 or 5 times a power of ten."""
    widths = (m * 10**e for e in range(12) for m in (1, 2, 5))
    width = next(w for w in widths if (high - low) / w <= 6)
    return list(range(math.ceil(low / width) * width, math.floor(high) + 1, width))


def _y(share: float) -> float:
    return HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (HEIGHT - _TOP - _BOTTOM)


def _text(text: str) -> str:
    return escape(text).encode("ascii", "xmlcharrefreplace").decode()
