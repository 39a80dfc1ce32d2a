"""avg@k, pass@k and maj@k against every choice of k samples, one by one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.evaluation.estimators import avg_at, maj_at, pass_at, sizes_of

RIGHT = "a"
votes_strategy = st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=8)


def majority_by_hand(chosen: tuple[str | None, ...]) -> Fraction:
    """Chance that the most frequent answer is right, ties drawn."""
    counts = Counter(v for v in chosen if v is not None)
    if not counts:
        return Fraction(0)
    most = max(counts.values())
    tied = [v for v, n in counts.items() if n == most]
    return Fraction(RIGHT in tied, len(tied))


@given(votes_strategy, st.data())
def test_maj_at_k_is_the_mean_over_every_choice(votes: list[str | None], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(votes)))
    every = [majority_by_hand(chosen) for chosen in combinations(votes, k)]
    assert maj_at(k, votes, RIGHT) == pytest.approx(float(sum(every) / len(every)), abs=1e-12)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_choices_with_a_right_sample(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    every = [any(chosen) for chosen in combinations([True] * c + [False] * (n - c), k)]
    assert pass_at(k, c, n) == pytest.approx(sum(every) / len(every), abs=1e-12)


@given(st.integers(1, 9), st.data())
def test_avg_at_k_is_the_mean_of_the_means_of_every_choice(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    every = [sum(chosen) / k for chosen in combinations([1] * c + [0] * (n - c), k)]
    assert avg_at(c, n) == pytest.approx(sum(every) / len(every), abs=1e-12)


def test_ties_count_by_the_number_of_tied_answers() -> None:
    assert maj_at(2, ["a", "b"], RIGHT) == pytest.approx(1 / 2)
    assert maj_at(3, ["a", "b", "c"], RIGHT) == pytest.approx(1 / 3)
    assert maj_at(5, ["a", "a", "b", "b", "c"], RIGHT) == pytest.approx(1 / 2)
    assert maj_at(4, ["a", "b", "b", None], RIGHT) == 0.0


def test_samples_without_an_answer_do_not_vote() -> None:
    assert maj_at(4, ["a", None, None, None], RIGHT) == 1.0
    assert maj_at(2, [None, None], RIGHT) == 0.0


def test_one_sample_makes_all_three_the_same() -> None:
    assert avg_at(3, 5) == pass_at(1, 3, 5) == maj_at(1, ["a", "a", "a", "b", None], RIGHT) == 3 / 5


def test_a_hundred_samples_are_no_burden() -> None:
    votes = ["a"] * 40 + [f"w{i % 15}" for i in range(45)] + [None] * 15
    assert maj_at(64, votes, RIGHT) == pytest.approx(1.0)
    assert 0.3 < maj_at(8, votes, RIGHT) < 1.0


def test_more_than_there_are_cannot_be_drawn() -> None:
    for k in (0, 3):
        with pytest.raises(ValueError, match="cannot be drawn"):
            pass_at(k, 1, 2)
        with pytest.raises(ValueError, match="cannot be drawn"):
            maj_at(k, ["a", "b"], RIGHT)
    with pytest.raises(ValueError, match="no sample"):
        avg_at(0, 0)


def test_reported_sizes_are_powers_of_two_and_all() -> None:
    assert [sizes_of(n) for n in (1, 2, 5, 8)] == [[1], [1, 2], [1, 2, 4, 5], [1, 2, 4, 8]]
