from __future__ import annotations

import re

from agentmath.telemetry.viewer.charts import MAX_POINTS, RL_CHARTS, curve, curve_names, evaluation_points, sections


def titles(section: dict) -> list[str]:
    return [c["title"] for c in section["charts"]]


def test_every_recorded_number_is_drawn_once() -> None:
    event = {"kind": "rl", "step": 1, "time_seconds": 2.0, "accuracy": 0.5, "reward": 0.6, "reward/tool": 0.1}
    event |= {"entropy": 0.2, "my_metric": 7, "seconds/train": 1.0, "seconds/step": 1.5, "note": "text", "flag": True}
    [section] = sections([event])
    drawn = [s["name"] for c in section["charts"] + section["more"] for s in c["series"]]
    assert sorted(drawn) == sorted(["accuracy", "reward", "tool", "entropy", "my metric", "train", "step"])
    assert [c["title"] for c in section["more"]] == ["my_metric", "seconds/step"]


def test_no_name_belongs_to_two_charts() -> None:
    names = ["accuracy", "reward", "reward/accuracy", "tool_use", "tool_ok", "tool_calls", "sampled_tokens", "stop/eos"]
    names += ["loss", "entropy", "clip_fraction_low", "mismatch_mean", "grad_norm", "groups_kept", "seconds/train"]
    names += ["tokens_per_second", "context_tokens", "dual_clip_fraction", "staleness_max"]
    for name in names:
        assert sum(re.fullmatch(c.names, name) is not None for c in RL_CHARTS) == 1, name


def test_stages_without_events_have_no_section() -> None:
    assert sections([]) == []
    found = sections([{"kind": "sft", "step": 1, "loss": 1.0, "held_out_loss": 1.5}])
    assert [s["kind"] for s in found] == ["sft"]
    assert [s["name"] for s in found[0]["charts"][0]["series"]] == ["loss", "held out loss"]


def test_numbers_that_are_not_finite_leave_a_gap() -> None:
    lines = [
        {"step": 1, "loss": 1.0},
        {"step": 2, "loss": None, "nonfinite": {"loss": "nan"}},
        {"step": 3, "loss": 2.0},
    ]
    assert curve(lines, "loss") == {"x": [1, 2, 3], "y": [1.0, None, 2.0]}
    assert curve_names(lines[1:2]) == ["loss"]


def test_a_metric_reported_now_and_then_has_only_those_points() -> None:
    lines = [{"step": s} | ({"held": s / 10} if s % 2 else {}) for s in range(1, 5)]
    assert curve(lines, "held") == {"x": [1, 3], "y": [0.1, 0.3]}


def test_long_runs_are_drawn_as_means_of_stretches() -> None:
    lines = [{"step": s, "loss": float(s)} for s in range(1, 2 * MAX_POINTS + 2)]
    drawn = curve(lines, "loss")
    assert len(drawn["x"]) <= MAX_POINTS
    assert (drawn["x"][0], drawn["y"][0]) == (3, 2.0)
    assert drawn["x"][-1] == 2 * MAX_POINTS + 1


def test_evaluations_are_points_with_their_interval_and_their_source() -> None:
    events = [{"kind": "rl", "step": 1, "accuracy": 0.9}]
    events.append(
        {"kind": "eval", "step": 0, "name": "svamp", "accuracy": 0.5, "accuracy_low": 0.4, "accuracy_high": 0.6}
    )
    events.append({"kind": "eval", "step": 5, "svamp/accuracy": 0.7, "tool_use": 1.0})
    assert evaluation_points(events) == [
        {"name": "held out: svamp accuracy", "x": 0, "y": 0.5, "low": 0.4, "high": 0.6},
        {"name": "held out: svamp/accuracy", "x": 5, "y": 0.7},
    ]
    assert sections(events)[0]["charts"][0]["points"] == evaluation_points(events)


def test_a_part_that_a_step_does_not_mention_is_nothing_in_a_stack() -> None:
    events = [
        {"kind": "rl", "step": 1, "stop/eos": 0.75, "stop/length": 0.25},
        {"kind": "rl", "step": 2, "stop/eos": 1.0},
    ]
    [chart] = sections(events)[0]["charts"]
    assert [(s["name"], s["y"]) for s in chart["series"]] == [("eos", [0.75, 1.0]), ("length", [0.25, 0.0])]
