from __future__ import annotations

import pytest

from agentmath.telemetry.stages import StageClock


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_stage_gets_its_own_seconds_and_a_take_begins_anew() -> None:
    time = Clock()
    clock = StageClock(time)
    with clock.stage("rollout"):
        time.now += 3
    time.now += 1
    with clock.stage("train"):
        time.now += 2
    with clock.stage("rollout"):
        time.now += 0.5
    assert clock.take() == {"seconds/rollout": 3.5, "seconds/train": 2.0, "seconds/step": 6.5}
    time.now += 1
    assert clock.take() == {"seconds/step": 1.0}


def test_time_in_an_inner_stage_is_not_counted_twice() -> None:
    time = Clock()
    clock = StageClock(time)
    with clock.stage("rollout"):
        time.now += 1
        with clock.stage("tools"):
            time.now += 4
        time.now += 2
    assert clock.take() == {"seconds/rollout": 3.0, "seconds/tools": 4.0, "seconds/step": 7.0}


def test_a_stage_that_raises_is_timed_and_ended() -> None:
    time = Clock()
    clock = StageClock(time)
    with pytest.raises(KeyError), clock.stage("train"):
        time.now += 2
        raise KeyError("x")
    time.now += 1
    assert clock.take() == {"seconds/train": 2.0, "seconds/step": 3.0}


def test_a_take_inside_an_open_stage_splits_it() -> None:
    time = Clock()
    clock = StageClock(time)
    with clock.stage("train"):
        time.now += 2
        assert clock.take()["seconds/train"] == 2.0
        time.now += 5
    assert clock.take() == {"seconds/train": 5.0, "seconds/step": 5.0}
