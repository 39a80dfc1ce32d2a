from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.algorithms import filters
from agentmath.algorithms.resampling import resample, uncleanness
from agentmath.config.algorithm import AlgorithmSection
from agentmath.core.types import (
    Group,
    Reward,
    SpanKind,
    StopReason,
    Task,
    Tokens,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)

OK, BAD, OURS = ToolStatus.OK, ToolStatus.EXCEPTION, ToolStatus.SANDBOX_ERROR
TASK = Task(id="t", question="q", answer="1")


def trajectory(
    index: int, accuracy: float, statuses: Sequence[ToolStatus] = (OK,), faults: tuple[str, ...] = (), stdout: str = ""
) -> Trajectory:
    """One turn a call, and a last one without."""
    words = Tokens.inserted([1], SpanKind.INTERPRETER)
    turns = [
        Turn(
            role="reasoning",
            agent="a",
            tokens=words,
            stop_reason=StopReason.STOP,
            call=ToolCall(tool="code", source="1"),
            result=ToolResult(status=status, stdout=stdout),
        )
        for status in statuses
    ]
    turns.append(Turn(role="reasoning", agent="a", tokens=words, stop_reason=StopReason.EOS, faults=faults))
    return Trajectory(
        task=TASK,
        sample_index=index,
        ordinal=0,
        prompt=Tokens.inserted([1], SpanKind.PROMPT),
        turns=turns,
        stop_reason=StopReason.EOS,
        reward=Reward(total=accuracy, parts={"accuracy": accuracy}),
    )


def indices(kept: Sequence[Trajectory]) -> list[int]:
    return [t.sample_index for t in kept]


@pytest.mark.parametrize(
    ("statuses", "faults", "expected"),
    [
        ((OK, OK), (), 0.0),
        ((OK, BAD), (), 0.5),
        ((BAD,), (), 1.0),
        ((), (), 0.5),
        ((OK, OURS), (), 0.0),
        ((OURS,), (), 0.5),
        ((OK, OK), ("unclosed_code",), 1 / 3),
        ((), ("a", "b", "c"), 1.5),
    ],
)
def test_uncleanness_by_hand(statuses: tuple[ToolStatus, ...], faults: tuple[str, ...], expected: float) -> None:
    assert uncleanness(trajectory(0, 1.0, statuses, faults)) == pytest.approx(expected)


def test_printing_the_word_error_is_no_error() -> None:
    assert uncleanness(trajectory(0, 1.0, (OK,), stdout="error bound 1e-3, Traceback")) == 0.0


def test_right_ones_are_kept_by_how_clean_they_are() -> None:
    right = [
        trajectory(0, 1.0, (BAD,)),
        trajectory(1, 1.0, (OK,)),
        trajectory(2, 1.0, ()),
        trajectory(3, 1.0, (OK, BAD, BAD)),
        trajectory(4, 1.0, (OK,)),
        trajectory(5, 1.0, (OK,), ("malformed_call",)),
    ]
    wrong = [trajectory(6, 0.0), trajectory(7, 0.0)]
    # 4 of 8: a quarter of them wrong would be 1, and at least 2 stay; the two cleanest of the right are 1 and 4.
    assert indices(resample([*right, *wrong], 4, seed=(0, 0))) == [1, 4, 6, 7]


def test_wrong_ones_keep_their_share() -> None:
    mixed = [trajectory(i, float(i < 8)) for i in range(32)]
    kept = resample(mixed, 16, seed=(0, 0))
    assert len(kept) == 16
    assert sum(t.reward.accuracy for t in kept if t.reward) == 4


def test_wrong_ones_are_chosen_at_random_and_repeatably() -> None:
    mixed = [trajectory(i, float(i < 2), (BAD,) if i % 2 else (OK,)) for i in range(16)]
    choices = {seed: indices(resample(mixed, 8, seed=(seed, 5))) for seed in range(30)}
    assert len({tuple(c) for c in choices.values()}) > 10
    assert choices == {seed: indices(resample(mixed, 8, seed=(seed, 5))) for seed in range(30)}
    # A tool error makes a wrong sample neither better nor worse.
    chosen = [i for c in choices.values() for i in c if i >= 2]
    assert 0.35 < sum(i % 2 for i in chosen) / len(chosen) < 0.65


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=20), st.integers(2, 20), st.integers(0, 9))
def test_as_many_as_wanted_in_their_order_and_contrast_stays(accuracies: list[float], count: int, seed: int) -> None:
    given_ = [trajectory(i, a) for i, a in enumerate(accuracies)]
    kept = resample(given_, count, seed=(seed, 1))
    assert len(kept) == min(count, len(accuracies))
    assert indices(kept) == sorted(indices(kept))
    assert {t.reward.accuracy for t in kept if t.reward} == set(accuracies)


def test_the_filter_resamples_what_survives_and_counts_it() -> None:
    group = Group(task=TASK, ordinal=3, trajectories=[trajectory(i, float(i < 3)) for i in range(8)])
    group.trajectories[7].stop_reason = StopReason.ERROR
    section = AlgorithmSection.model_validate({"resample_to": 4})
    kept = filters.keep([group], section, seed=11)
    assert len(kept.groups[0].trajectories) == 4
    assert kept.counts["samples_resampled"] == 3
    assert indices(filters.keep([group], section, seed=11).groups[0].trajectories) == indices(
        kept.groups[0].trajectories
    )
    assert len(group.trajectories) == 8
    assert "samples_resampled" not in filters.keep([group], AlgorithmSection()).counts


def test_a_group_that_is_small_enough_is_handed_on_as_it_is() -> None:
    group = Group(task=TASK, ordinal=3, trajectories=[trajectory(0, 1.0), trajectory(1, 0.0)])
    assert filters.keep([group], AlgorithmSection.model_validate({"resample_to": 2})).groups[0] is group
