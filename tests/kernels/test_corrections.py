from __future__ import annotations

import math
from typing import Any, get_args

import pytest

torch = pytest.importorskip("torch")

from agentmath_kernels import Clip, Correction, Gspo, Kl, policy_loss  # noqa: E402
from agentmath_kernels.corrections import CorrectionName, Sequences, sequence_weights, token_weights  # noqa: E402
from agentmath_kernels.divergence import Estimate, penalty  # noqa: E402
from agentmath_kernels.reference import policy_loss_reference  # noqa: E402
from loss_cases import case, relative, run, without  # noqa: E402

CORRECTIONS = [
    Correction(name="none"),
    Correction(name="token_tis", high=1.1),
    Correction(name="icepop", low=0.9, high=1.2),
    Correction(name="sequence_tis", high=1.1),
    Correction(name="sequence_mask", low=0.2, high=1.5),
    Correction(name="geometric_mask", low=0.9, high=1.05),
]
SEQUENCES = torch.tensor([0] * 5 + [3] * 7 + [1] * 11)
# Weights 2 and 1/4 of one sequence, 1/2 of another: products 1/2 and 1/2, geometric means 0.707 and 1/2.
LOG_WEIGHTS = torch.tensor([2.0, 0.25, 0.5], dtype=torch.float64).log()
TWO = Sequences(torch.tensor([0, 0, 1]), 2)


@pytest.mark.parametrize("policy", ["proximal", "on_policy"])
@pytest.mark.parametrize("surrogate", [Clip(dual=10.0), Gspo(low=0.1, high=0.1)], ids=str)
@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
def test_every_correction_equals_dense_autograd_in_float64(surrogate: Any, correction: Correction, policy: str) -> None:
    c = {**case(8), "sequences": SEQUENCES}
    if policy == "on_policy":
        c = without(c, "proximal_logprobs")
    options = {"surrogate": surrogate, "correction": correction, "on_policy": policy == "on_policy"}
    _, loss, dh, dw = run(policy_loss, c, **options, chunk_bytes=1000)
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, c, **options)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    assert relative(dh, ref_dh) < 1e-12
    assert relative(dw, ref_dw) < 1e-12


@pytest.mark.parametrize(
    ("correction", "weights", "acted"),
    [
        (Correction(name="none"), [1, 1, 1], [0, 0, 0]),
        (Correction(name="token_tis", high=1.5), [1.5, 0.25, 0.5], [1, 0, 0]),
        (Correction(name="icepop", low=0.3, high=2.0), [2, 0, 0.5], [0, 1, 0]),
        (Correction(name="sequence_tis", high=0.4), [0.4, 0.4, 0.4], [1, 1, 1]),
        (Correction(name="sequence_tis", high=2.0), [0.5, 0.5, 0.5], [0, 0, 0]),
        (Correction(name="sequence_mask", low=0.6, high=2.0), [0, 0, 0], [1, 1, 1]),
        (Correction(name="sequence_mask", low=0.4, high=2.0), [0.5, 0.5, 0.5], [0, 0, 0]),
        (Correction(name="geometric_mask", low=0.6, high=2.0), [1, 1, 0], [0, 0, 1]),
    ],
    ids=str,
)
def test_weights_by_hand(correction: Correction, weights: list[float], acted: list[int]) -> None:
    got = (
        sequence_weights(correction, LOG_WEIGHTS, TWO)
        if correction.of_sequence
        else token_weights(correction, LOG_WEIGHTS)
    )
    assert got.weight.tolist() == pytest.approx(weights)
    assert got.acted.tolist() == [bool(a) for a in acted]


@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
@pytest.mark.parametrize("log_weight", [1e4, -1e4, 800.0])
def test_extreme_weights_stay_finite(correction: Correction, log_weight: float) -> None:
    values = torch.full((3,), log_weight)
    got = sequence_weights(correction, values, TWO) if correction.of_sequence else token_weights(correction, values)
    assert bool(got.weight.isfinite().all())
    assert bool((got.weight <= max(correction.high, 1.0)).all())


@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
def test_equal_policies_are_not_corrected(correction: Correction) -> None:
    c = {**case(6), "sequences": SEQUENCES}
    c["proximal_logprobs"] = c["behaviour_logprobs"]
    plain = run(policy_loss, c, surrogate=Clip(), correction=Correction(name="none"))
    corrected = run(policy_loss, c, surrogate=Clip(), correction=correction)
    torch.testing.assert_close(corrected[2], plain[2])
    shares = {n: v for n, v in corrected[0].metrics.items() if n.startswith("importance")}
    assert set(shares.values()) <= {0.0}
    assert bool(shares) == (correction.name != "none")


def test_shares_of_corrected_rows_are_reported_under_their_name() -> None:
    c = {**case(8), "sequences": SEQUENCES}
    names = {"token_tis": "truncated", "icepop": "masked", "sequence_tis": "truncated", "sequence_mask": "masked"}
    for name, what in names.items():
        correction = Correction(name=name, low=0.99, high=1.01)  # pyright: ignore[reportArgumentType]
        metrics = run(policy_loss, c, surrogate=Clip(), correction=correction)[0].metrics
        assert 0 < metrics[f"importance_{what}_fraction"] <= 1


def test_all_names_are_tried_here() -> None:
    assert {c.name for c in CORRECTIONS} == set(get_args(CorrectionName))


@pytest.mark.parametrize("estimate", get_args(Estimate))
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_every_penalty_equals_dense_autograd_in_float64(estimate: Estimate, temperature: float) -> None:
    c = case(10)
    c["reference_logprobs"] = c["behaviour_logprobs"] + 0.4
    options = {
        "surrogate": Clip(dual=10.0),
        "correction": Correction(high=1.1),
        "kl": Kl(estimate=estimate, coef=0.7),
        "temperature": temperature,
    }
    out, loss, dh, dw = run(policy_loss, c, **options, chunk_bytes=1000)
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, c, **options)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    assert relative(dh, ref_dh) < 1e-12
    assert relative(dw, ref_dw) < 1e-12
    assert math.isfinite(out.metrics["kl"])


@pytest.mark.parametrize(
    ("estimate", "value", "slope"),
    [("k1", math.log(2), 1.0), ("k2", math.log(2) ** 2 / 2, math.log(2)), ("k3", math.log(2) - 0.5, 0.5)],
)
def test_penalties_by_hand(estimate: Estimate, value: float, slope: float) -> None:
    # pi twice the reference: d = ln 2, exp(-d) = 1/2.
    got = penalty(estimate, torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)]))
    assert float(got.value) == pytest.approx(value, rel=1e-6)
    assert float(got.dlogp) == pytest.approx(slope, rel=1e-6)
    straight = penalty("k3+", torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)]))
    assert float(straight.value) == pytest.approx(math.log(2) - 0.5, rel=1e-6)
    assert float(straight.dlogp) == pytest.approx(math.log(2), rel=1e-6)


@pytest.mark.parametrize("estimate", get_args(Estimate))
@pytest.mark.parametrize("distance", [1e4, -1e4])
def test_far_references_stay_finite(estimate: Estimate, distance: float) -> None:
    got = penalty(estimate, torch.tensor([-1.0]), torch.tensor([-1.0 - distance]))
    assert bool(got.value.isfinite())
    assert bool(got.dlogp.isfinite())


def test_no_penalty_where_policy_and_reference_agree() -> None:
    c = case(12)
    same = run(policy_loss, c, surrogate=Clip(), correction=Correction())
    c["reference_logprobs"] = torch.zeros(23, dtype=torch.float64)
    c["reference_logprobs"][c["mask"]] = same[0].logprobs
    for estimate in ("k2", "k3", "k3+"):
        held = run(policy_loss, c, surrogate=Clip(), correction=Correction(), kl=Kl(estimate=estimate, coef=5.0))
        torch.testing.assert_close(held[2], same[2])
        assert held[0].metrics["kl"] == pytest.approx(0.0, abs=1e-15)


def test_a_penalty_is_not_weighted_by_the_correction() -> None:
    # Everything off-policy is dropped: what is left is the penalty alone.
    c = {**case(14), "advantages": torch.ones(23, dtype=torch.float64)}
    c["reference_logprobs"] = c["behaviour_logprobs"] + 0.3
    dropped = Correction(name="icepop", low=5.0, high=6.0)
    _, loss, _, _ = run(policy_loss, c, surrogate=Clip(), correction=dropped, kl=Kl(estimate="k2", coef=2.0))
    logp = run(policy_loss, c, surrogate=Clip(), correction=dropped)[0].logprobs
    d = logp - c["reference_logprobs"][c["mask"]]
    assert float(loss) == pytest.approx(float((d**2).mean()))
