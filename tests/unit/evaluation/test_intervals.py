"""Wilson intervals, by hand and by coverage."""

from __future__ import annotations

import numpy as np
import pytest

from agentmath.evaluation.intervals import wilson


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
