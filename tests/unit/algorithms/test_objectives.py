from __future__ import annotations

from typing import get_args

import pytest

pytest.importorskip("torch")

from agentmath.algorithms.objectives import correction_of, kl_of, surrogate_of
from agentmath.config import algorithm
from agentmath.config.algorithm import AlgorithmSection
from agentmath_kernels import Cispo, Clip, Correction, Dppo, Gspo, Kl, Sapo, Surrogate
from agentmath_kernels import corrections as kernel_corrections
from agentmath_kernels import divergence as kernel_divergence


def section(**values: object) -> AlgorithmSection:
    return AlgorithmSection.model_validate(values)


def test_the_default_is_clip_higher_with_dual_clip_and_truncated_weights_and_no_penalty() -> None:
    assert surrogate_of(section()) == Clip(low=0.2, high=0.28, dual=10.0)
    assert correction_of(section()) == Correction(name="token_tis", low=0.0, high=2.0)
    assert kl_of(section()) is None


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("ppo_clip", Clip(low=0.2, high=0.28, dual=10.0)),
        ("gspo", Gspo(low=3e-4, high=4e-4)),
        ("cispo", Cispo(low=1.0, high=4.0)),
        ("sapo", Sapo(tau_positive=1.0, tau_negative=1.05)),
        ("dppo", Dppo(low=0.2, high=0.2)),
    ],
)
def test_a_surrogate_brings_its_published_bounds(name: str, record: Surrogate) -> None:
    assert surrogate_of(section(surrogate=name)) == record


def test_records_have_the_published_bounds_as_their_defaults() -> None:
    for record in (Gspo(), Cispo(), Sapo(), Dppo()):
        name = type(record).__name__.lower()
        assert surrogate_of(section(surrogate=name)) == record


def test_given_bounds_are_taken() -> None:
    assert surrogate_of(section(surrogate="gspo", clip_low=0.1)) == Gspo(low=0.1, high=4e-4)
    assert correction_of(section(correction="icepop", importance_cap=3.0)) == Correction(
        name="icepop", low=0.5, high=3.0
    )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("none", 0.0, 2.0),
        ("token_tis", 0.0, 2.0),
        ("icepop", 0.5, 5.0),
        ("sequence_tis", 0.0, 5.0),
        ("sequence_mask", 0.5, 2.0),
        ("geometric_mask", 0.99, 1.01),
    ],
)
def test_a_correction_brings_its_published_bounds(name: str, low: float, high: float) -> None:
    found = correction_of(section(correction=name))
    assert (found.name, found.low, found.high) == (name, low, high)


def test_every_name_of_a_recipe_is_known_to_the_loss() -> None:
    assert get_args(algorithm.CorrectionName) == get_args(kernel_corrections.CorrectionName)
    assert get_args(algorithm.KlName) == ("none", *get_args(kernel_divergence.Estimate))
    assert all(surrogate_of(section(surrogate=name)) for name in get_args(algorithm.SurrogateName))
    assert kl_of(section(kl="k3", kl_coef=0.5)) == Kl(estimate="k3", coef=0.5)
