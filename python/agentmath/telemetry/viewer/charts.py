"""Which curves the report draws: events of metrics.jsonl -> charts as plain data.

Metrics that no chart asks for are drawn as well, one chart each, so that nothing recorded is hidden.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentmath.telemetry.events import Event
from agentmath.telemetry.stages import PREFIX

MAX_POINTS = 1000
"""Points of one curve; of longer runs each point is the mean of a stretch of steps."""
_NO_CURVES = ("kind", "step", "time_seconds", "nonfinite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What is drawn together."""

    title: str
    help: str
    """One sentence: what it is and what to look for."""
    names: str
    """Regular expression of metric names, matched whole."""
    unit: str = ""
    """share (drawn from 0 to 1 as percent), seconds, tokens or nothing."""
    stacked: bool = False


RL_CHARTS = (
    Chart(
        title="Accuracy",
        help="Share of sampled answers that are right; dots are evaluations on held-out tasks, with their interval.",
        names=r"accuracy",
        unit="share",
    ),
    Chart(
        title="Reward",
        help="Mean total reward and its parts; the tool part pays for calls and so may rise without accuracy.",
        names=r"reward(/.*)?",
    ),
    Chart(
        title="Tool use",
        help="Trajectories with at least one call, and calls that ran through.",
        names=r"tool_use|tool_ok",
        unit="share",
    ),
    Chart(title="Tool calls per trajectory", help="Mean N of executed calls.", names=r"tool_calls"),
    Chart(
        title="Length",
        help="Mean tokens the model sampled, and with prompt and tool output.",
        names=r"sampled_tokens|context_tokens",
        unit="tokens",
    ),
    Chart(
        title="How trajectories end",
        help="Share per stop reason; length means that a budget cut them off.",
        names=r"stop/.*",
        unit="share",
        stacked=True,
    ),
    Chart(title="Policy loss", help="Hovers around zero in policy-gradient training.", names=r"loss"),
    Chart(
        title="Entropy",
        help="Of the sampled tokens' distributions; a collapse ends exploration.",
        names=r"entropy",
    ),
    Chart(
        title="Clip share",
        help="Tokens whose ratio or importance weight met its bound; 0 with one update per step.",
        names=r"(dual_)?clip_.*|importance_(truncated|masked)_.*",
        unit="share",
    ),
    Chart(
        title="|dlogp|",
        help="Mean distance between the trainer's log-probs and those at sampling; should stay small.",
        names=r"mismatch_mean|(abs_)?dlogp",
    ),
    Chart(
        title="Staleness",
        help="Versions that the weights moved on since a token was sampled.",
        names=r"staleness_.*",
    ),
    Chart(title="Gradient norm", help="Before clipping.", names=r"grad_norm"),
    Chart(
        title="What became of groups",
        help="Kept ones are trained on; groups that are all right or all wrong teach nothing about being right.",
        names=r"groups_(kept|failed|all_correct|all_wrong|stale)",
        stacked=True,
    ),
    Chart(
        title="Seconds per stage",
        help="Where the time of a step goes.",
        names=re.escape(PREFIX) + r"(?!step$).*",
        unit="seconds",
        stacked=True,
    ),
    Chart(title="Tokens per second", help="Prompt to gradient, whole step.", names=r"tokens_per_second"),
)
SFT_CHARTS = (
    Chart(title="Loss", help="Mean over trained tokens; held out: never trained on.", names=r"loss|held_out.*loss"),
    Chart(title="Tokens per second", help="Whole step.", names=r"tokens_per_second"),
)


def sections(events: Sequence[Event]) -> list[dict[str, Any]]:
    """[{"title", "charts": [...], "more": [...]}] of the stages that have events, reinforcement learning first."""
    found = []
    for kind, title, charts in (
        ("rl", "Reinforcement learning", RL_CHARTS),
        ("sft", "Supervised warm-up", SFT_CHARTS),
    ):
        lines = [e for e in events if e["kind"] == kind]
        if not lines:
            continue
        names = curve_names(lines)
        drawn = [_chart(c, lines, [n for n in names if re.fullmatch(c.names, n)]) for c in charts]
        if kind == "rl":
            drawn[0]["points"] = evaluation_points(events)
        known = re.compile("|".join(f"(?:{c.names})" for c in charts))
        rest = [n for n in names if not known.fullmatch(n)]
        more = [_chart(Chart(title=n, help="", names=""), lines, [n]) for n in rest]
        kept = [c for c in drawn if c["series"] or c.get("points")]
        found.append({"title": title, "kind": kind, "charts": kept, "more": more})
    return found


def curve_names(lines: Sequence[Event]) -> list[str]:
    """Names of numbers, in the order of their first appearance."""
    names: dict[str, None] = {}
    for line in lines:
        for name, value in line.items():
            if name not in _NO_CURVES and (is_number(value) or name in line.get("nonfinite", ())):
                names[name] = None
    return list(names)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def evaluation_points(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Accuracies of evaluations: [{"name", "x", "y", "low", "high"}], one entry per metric and event.

    The text "name" of an event, if it has one, says which tasks were asked.
    """
    points = []
    for event in events:
        for name, value in event.items():
            if event["kind"] != "eval" or not is_number(value) or not re.fullmatch(r"(.*/)?accuracy(/.*)?", name):
                continue
            low, high = event.get(name + "_low"), event.get(name + "_high")
            source = event.get("name")
            label = f"{source} {name}" if isinstance(source, str) else name
            point = {"name": f"held out: {label}", "x": event["step"], "y": value}
            points.append(point | ({"low": low, "high": high} if is_number(low) and is_number(high) else {}))
    return points


def _chart(chart: Chart, lines: Sequence[Event], names: Sequence[str]) -> dict[str, Any]:
    """What the page draws; in a stack a part that a step does not mention is 0."""
    if chart.stacked:
        lines = [dict.fromkeys(names, 0.0) | e for e in lines if any(n in e for n in names)]
    series = [{"name": _label(name)} | curve(lines, name) for name in names]
    return {
        "title": chart.title,
        "help": chart.help,
        "unit": chart.unit,
        "stacked": chart.stacked,
        "series": [s for s in series if s["x"]],
    }


def _label(name: str) -> str:
    head, _, tail = name.partition("/")
    return (tail if head in ("seconds", "stop", "reward") and tail else name).replace("_", " ")


def curve(lines: Sequence[Event], name: str) -> dict[str, list[Any]]:
    """x: steps, y: values, None where a value was not finite; at most MAX_POINTS."""
    points = [(e["step"], e[name] if is_number(e[name]) else None) for e in lines if name in e]
    width = math.ceil(len(points) / MAX_POINTS) or 1
    x, y = [], []
    for begin in range(0, len(points), width):
        stretch = points[begin : begin + width]
        values = [v for _, v in stretch if v is not None]
        x.append(stretch[-1][0])
        y.append(float(f"{sum(values) / len(values):.6g}") if values else None)
    return {"x": x, "y": y}
