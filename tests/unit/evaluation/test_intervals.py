"""Wilson intervals, by hand and by coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentmath.evaluation.intervals import mean_interval, wilson


def test_wilson_by_hand():
    # 8 of 10: centre (0.8 + 0.19207) / 1.38415, half width 1.95996 / 1.38415 x sqrt(0.016 + 0.0096036).
    low, high = wilson(8, 10)
    assert low == pytest.approx(0.4902, abs=5e-5)
    assert high == pytest.approx(0.9433, abs=5e-5)


def test_ends_stay_inside_and_nothing_is_known_without_trials():
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 7)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson(7, 7)[1] == pytest.approx(1.0)
    assert 0 < wilson(0, 7)[1] < 0.5


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_about_95_percent_of_intervals_cover(share: float):
    draws = np.random.default_rng(0).binomial(200, share, size=4000)
    covered = np.mean([low <= share <= high for low, high in (wilson(int(k), 200) for k in draws)])
    assert 0.93 < covered < 0.97


def test_a_mean_has_students_interval():
    # Mean 2, deviation 1, three values: 2 +- 4.303 / sqrt(3).
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert low == pytest.approx(2 - 2.4843, abs=1e-4)
    assert high == pytest.approx(2 + 2.4843, abs=1e-4)


def test_one_value_says_nothing_of_the_spread():
    assert mean_interval([5.0]) == (5.0, -math.inf, math.inf)


@pytest.mark.parametrize(("count", "quantile"), [(11, 2.228), (16, 2.131), (31, 2.042), (101, 1.984)])
def test_many_values_have_the_tabled_quantiles(count: int, quantile: float):
    values = [float(i % 2) for i in range(count)]
    mean, low, high = mean_interval(values)
    deviation = np.std(values, ddof=1) / math.sqrt(count)
    assert (high - mean) / deviation == pytest.approx(quantile, abs=1e-3)
    assert high - mean == pytest.approx(mean - low)
