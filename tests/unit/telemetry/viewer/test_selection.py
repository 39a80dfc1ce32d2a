from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.telemetry.viewer import selection
from agentmath.telemetry.viewer.selection import choose, clip, outcome, select_trajectories, spread

Record = Callable[..., Path]


@given(count=st.integers(0, 60), limit=st.integers(2, 20))
def test_spread_keeps_both_ends_and_the_limit(count: int, limit: int) -> None:
    items = list(range(count))
    kept = spread(items, limit)
    assert len(kept) == min(count, limit)
    assert kept == sorted(set(kept))
    assert not items or (kept[0], kept[-1]) == (items[0], items[-1])


@given(outcomes=st.lists(st.sampled_from("abc"), max_size=40), limit=st.integers(0, 20))
def test_rare_outcomes_are_never_crowded_out(outcomes: list[str], limit: int) -> None:
    kept = choose(outcomes, limit)
    assert kept == sorted(set(kept))
    assert len(kept) == min(limit, len(outcomes))
    if limit >= 3:
        assert {outcomes[i] for i in kept} == set(outcomes)


@pytest.mark.parametrize(
    ("stop", "failures", "accuracy", "calls", "word"),
    [
        ("length", 1, 1.0, 1, "truncated"),
        ("answer", 1, 1.0, 2, "tool error"),
        ("answer", 0, 1.0, 1, "right"),
        ("answer", 0, 0.0, 0, "wrong, no tool"),
    ],
)
def test_an_outcome_is_what_a_reader_would_look_for(
    stop: str, failures: int, accuracy: float, calls: int, word: str
) -> None:
    row = {"stop_reason": stop, "num_tool_failures": failures, "num_tool_calls": calls}
    assert outcome(row | {"reward_parts": [("accuracy", accuracy)]}) == word


def test_a_row_without_reward_is_not_right() -> None:
    row = {"stop_reason": None, "num_tool_failures": 0, "num_tool_calls": 1, "reward_parts": None}
    assert outcome(row) == "wrong"


def test_long_texts_keep_head_and_tail_and_say_what_is_missing() -> None:
    text = "a" * 30_000 + "z"
    short = clip(text)
    assert len(short) < 20_100
    assert short.startswith("aaa")
    assert short.endswith("z")
    assert "10,001 characters are not shown" in short
    assert clip("short") == "short"
    assert clip(None) is None


def test_the_choice_is_bounded_over_many_steps(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_TRAJECTORIES", 12)
    monkeypatch.setattr(selection, "MAX_STEPS", 3)
    rows, notes = select_trajectories(record(steps=7, samples=8))
    assert [row["step"] for row in rows] == [1] * 4 + [4] * 4 + [7] * 4
    assert "12 of 24 trajectories of 3 of 7 recorded steps" in notes[0]
    assert {row["outcome"] for row in rows} >= {"truncated", "tool error"}


def test_the_texts_together_are_bounded(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_TOTAL_CHARS", 25_000)
    rows, notes = select_trajectories(record(steps=1, samples=8, text="y" * 10_000))
    assert 0 < len(rows) < 8
    assert "of 8 trajectories" in notes[0]


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_shown(record: Record) -> None:
    run = record(steps=2)
    (run / "trajectories" / "step-000001.parquet").write_bytes(b"PAR1 not really")
    rows, notes = select_trajectories(run)
    assert {row["step"] for row in rows} == {2}
    assert any("step-000001.parquet could not be read" in note for note in notes)


def test_no_trajectories_are_no_trajectories(tmp_path: Path) -> None:
    assert select_trajectories(tmp_path) == ([], [])
