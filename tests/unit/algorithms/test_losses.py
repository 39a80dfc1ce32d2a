from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.algorithms import losses
from agentmath.config.algorithm import Aggregation

MODES: tuple[Aggregation, ...] = get_args(Aggregation)
# Prompt a has samples of 2 and 4 tokens, prompt b one of 6.
LENGTHS = [2, 4, 6]
PROMPTS = ["a", "a", "b"]
TERMS = [np.array([1.0, 3.0]), np.array([2.0, 2.0, 2.0, 6.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 7.0])]


def loss(mode: Aggregation, keep: list[int] | None = None) -> float:
    totals = losses.count(LENGTHS, PROMPTS)
    keep = keep if keep is not None else [0, 1, 2]
    w = losses.sample_weights(mode, [LENGTHS[i] for i in keep], [PROMPTS[i] for i in keep], totals, horizon_tokens=10)
    return float(sum(w[j] * TERMS[i].sum() for j, i in enumerate(keep)) / totals.num_trainable_tokens)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token-mean", 28 / 12),
        ("prompt-token-mean", (16 / 6 + 12 / 6) / 2),
        ("seq-mean-token-mean", (2 + 3 + 2) / 3),
        ("seq-mean-token-sum", 28 / 3),
        ("seq-mean-token-sum-norm", 28 / 30),
    ],
)
def test_modes_by_hand(mode: Aggregation, expected: float) -> None:
    assert loss(mode) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_parts_add_up_to_the_whole(mode: Aggregation) -> None:
    assert loss(mode, [0]) + loss(mode, [1, 2]) == pytest.approx(loss(mode), rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_a_sample_that_is_counted_but_not_forwarded_leaves_the_others_weights(mode: Aggregation) -> None:
    totals = losses.count(LENGTHS, PROMPTS)
    whole = losses.sample_weights(mode, LENGTHS, PROMPTS, totals, horizon_tokens=10)
    part = losses.sample_weights(mode, LENGTHS[1:], PROMPTS[1:], totals, horizon_tokens=10)
    assert part.tolist() == whole[1:].tolist()


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 4)), min_size=1, max_size=20))
def test_means_of_a_constant_term_are_that_constant(samples: list[tuple[int, int]]) -> None:
    lengths, prompts = [n for n, _ in samples], [p for _, p in samples]
    totals = losses.count(lengths, prompts)
    for mode in ("token-mean", "prompt-token-mean", "seq-mean-token-mean"):
        w = losses.sample_weights(mode, lengths, prompts, totals)
        assert float((w * lengths).sum() / totals.num_trainable_tokens) == pytest.approx(1.0)


def test_equal_lengths_make_all_means_alike() -> None:
    totals = losses.count([5, 5, 5, 5], ["a", "a", "b", "b"])
    for mode in ("token-mean", "prompt-token-mean", "seq-mean-token-mean"):
        w = losses.sample_weights(mode, [5] * 4, ["a", "a", "b", "b"], totals)
        assert w == pytest.approx(np.ones(4))


def test_a_sample_without_trainable_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="0 trainable tokens"):
        losses.count([3, 0], ["a", "b"])


@pytest.mark.parametrize("horizon", [None, 0])
def test_the_norm_mode_needs_a_horizon(horizon: int | None) -> None:
    with pytest.raises(ValueError, match="horizon"):
        losses.sample_weights("seq-mean-token-sum-norm", [1], ["a"], losses.count([1], ["a"]), horizon_tokens=horizon)


def test_no_samples_is_fine() -> None:
    totals = losses.count([], [])
    assert totals.num_prompts == 0
    for mode in MODES:
        if mode == "token-mean":
            assert losses.sample_weights(mode, [], [], totals).tolist() == []
