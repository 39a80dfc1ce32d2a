"""Intervals over problems: how often they cover, and what they say where nothing varies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agentmath.evaluation.bootstrap import expanded_tail, mean_over_problems, resampled_means, t_975

TRIALS = 500
"""Standard error of a coverage of 0.95 is then 0.0097; the seeds are fixed."""


def coverage(draw_problems: Callable[[np.random.Generator], np.ndarray], truth: float) -> float:
    generator = np.random.default_rng(1)
    hits = 0
    for trial in range(TRIALS):
        estimate = mean_over_problems(draw_problems(generator).tolist(), seed=trial)
        assert estimate is not None
        hits += estimate.low <= truth <= estimate.high
    return hits / TRIALS


@pytest.mark.parametrize("share", [0.137, 0.5123, 0.871])
def test_about_95_percent_of_intervals_cover_a_share_of_problems(share: float) -> None:
    covered = coverage(lambda g: (g.random(200) < share).astype(float), share)
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("num_problems", [30, 100])
def test_about_95_percent_cover_avg_at_8_of_problems_of_unequal_difficulty(num_problems: int) -> None:
    # Rates of problems are Beta(0.8, 1.2): their mean is 0.4. Samples of one problem are far from independent.
    covered = coverage(lambda g: g.binomial(8, g.beta(0.8, 1.2, num_problems)) / 8, 0.4)
    assert 0.93 <= covered <= 0.97


def test_an_interval_over_samples_would_be_too_narrow() -> None:
    """The same data with samples drawn as if they were problems: what the law above protects from."""
    generator = np.random.default_rng(2)
    rates = generator.beta(0.8, 1.2, 100)
    samples = generator.random((100, 8)) < rates[:, None]
    by_problem = mean_over_problems(samples.mean(axis=1).tolist())
    by_sample = mean_over_problems(samples.ravel().astype(float).tolist())
    assert by_problem is not None and by_sample is not None
    assert by_problem.value == pytest.approx(by_sample.value)
    assert by_problem.high - by_problem.low > 1.5 * (by_sample.high - by_sample.low)


def test_equal_values_are_no_certainty() -> None:
    none_right = mean_over_problems([0.0] * 30)
    assert none_right is not None and none_right.low == pytest.approx(0.0) and 0.05 < none_right.high < 0.15
    halves = mean_over_problems([0.5] * 10)
    assert halves is not None and halves.low < 0.4 and halves.high > 0.6
    lone = mean_over_problems([1.0])
    assert lone is not None and lone.low < 0.5 and lone.high == pytest.approx(1.0)


def test_numbers_that_are_no_shares_have_no_width_where_nothing_varies() -> None:
    estimate = mean_over_problems([7.0] * 5, is_share=False)
    assert estimate is not None and (estimate.low, estimate.high) == (7.0, 7.0)


def test_no_problem_has_no_mean() -> None:
    assert mean_over_problems([]) is None


def test_equal_seeds_give_equal_intervals() -> None:
    values = np.random.default_rng(3).random(50).tolist()
    assert mean_over_problems(values, seed=4) == mean_over_problems(values, seed=4)
    assert mean_over_problems(values, seed=4) != mean_over_problems(values, seed=5)


def test_resampled_means_have_the_bootstrap_s_spread() -> None:
    data = np.random.default_rng(6).random(400)
    means = resampled_means(data, 0)
    assert means.std() == pytest.approx(data.std() / 20, rel=0.05)
    assert means.mean() == pytest.approx(data.mean(), abs=4 * means.std() / len(means) ** 0.5)


@pytest.mark.parametrize(
    ("degrees", "tabled"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423)]
)
def test_quantiles_of_student_are_the_tabled_ones(degrees: int, tabled: float) -> None:
    assert t_975(degrees) == pytest.approx(tabled, rel=0.002)


def test_the_tail_approaches_2_5_percent_from_below() -> None:
    tails = [expanded_tail(n) for n in (3, 10, 100, 10_000)]
    assert tails == sorted(tails) and tails[-1] == pytest.approx(0.025, abs=1e-4)
