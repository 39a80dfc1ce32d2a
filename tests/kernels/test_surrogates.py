from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentmath_kernels import Cispo, Clip, Correction, Dppo, Gspo, Kl, Sapo, policy_loss  # noqa: E402
from agentmath_kernels.reference import dense_logprobs, policy_loss_reference  # noqa: E402
from agentmath_kernels.surrogates import Standing, Terms  # noqa: E402
from loss_cases import bytes_for, case, relative, run, without  # noqa: E402

SURROGATES = [Clip(dual=10.0), Gspo(), Gspo(low=0.1, high=0.2), Cispo(), Cispo(low=0.2, high=0.2), Sapo(), Dppo()]
NONE, TIS = Correction(name="none"), Correction()
SEQUENCES = torch.tensor([0] * 5 + [3] * 7 + [1] * 11)


def one_row(surrogate: Any, ratio: float, advantage: float, logp: float = -1.0) -> Terms:
    values = (logp, math.log(ratio), advantage)
    return surrogate.terms(Standing(*(torch.tensor([v], dtype=torch.float64) for v in values)))


def inputs_of(surrogate: Any, policy: str, seed: int = 3) -> dict[str, Any]:
    c = {**case(seed), "sequences": SEQUENCES}
    return c if policy == "proximal" and not surrogate.from_behaviour else without(c, "proximal_logprobs")


@pytest.mark.parametrize("policy", ["proximal", "on_policy", "behaviour"])
@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_loss_and_both_gradients_equal_dense_autograd_in_float64(surrogate: Any, policy: str) -> None:
    options = {"surrogate": surrogate, "correction": TIS, "temperature": 0.8}
    options["on_policy"] = policy == "on_policy" and not surrogate.from_behaviour
    c = inputs_of(surrogate, policy)
    out, loss, dh, dw = run(policy_loss, c, **options, chunk_bytes=bytes_for(4))
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, c, **options)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    assert relative(dh, ref_dh) < 1e-12
    assert relative(dw, ref_dw) < 1e-12
    assert out.num_nonfinite == 0


@pytest.mark.parametrize("surrogate", [s for s in SURROGATES if not isinstance(s, Cispo)], ids=str)
@pytest.mark.parametrize("advantage", [1.5, -0.7])
@pytest.mark.parametrize("ratio", [0.3, 0.91, 1.0002, 1.4, 25.0])
def test_slope_is_the_derivative_of_the_objective(surrogate: Any, advantage: float, ratio: float) -> None:
    h, old = 1e-6, -1.0 - math.log(ratio)
    ends = [one_row(surrogate, math.exp(-1.0 + d - old), advantage, -1.0 + d).objective for d in (h, -h)]
    slope = float(ends[0] - ends[1]) / (2 * h)
    assert float(one_row(surrogate, ratio, advantage).dlogp) == pytest.approx(slope, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_gradient_by_hidden_states_equals_central_differences_of_the_loss(surrogate: Any) -> None:
    if isinstance(surrogate, Cispo):
        pytest.skip("its weight is a constant that moves with the weights: no derivative of this loss")
    # Head (1, 0) and target 0: logp = -log(1 + exp(-x)). Weights are constant within a sequence, as every aggregation
    # mode has them, so that Gspo's token form is the derivative of its sequence form.
    x = torch.linspace(-1.0, 1.0, 6, dtype=torch.float64)[:, None]
    head = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    constants: dict[str, Any] = {
        "advantages": torch.tensor([1.0, 1.0, 1.0, -2.0, -2.0, -2.0], dtype=torch.float64),
        "behaviour_logprobs": torch.tensor([-1.2, -1.0, -0.7, -0.6, -0.8, -0.2], dtype=torch.float64),
        "reference_logprobs": torch.full((6,), -0.5, dtype=torch.float64),
        "row_weights": torch.tensor([1.0, 1.0, 1.0, 0.5, 0.5, 0.5], dtype=torch.float64),
        "sequences": torch.tensor([0, 0, 0, 1, 1, 1]),
        "num_trainable_tokens": 6,
        "surrogate": surrogate,
        "correction": NONE,
        "kl": Kl(estimate="k3", coef=0.3),
    }

    def loss(at: Any) -> Any:
        return policy_loss(at, head, torch.zeros(6, dtype=torch.long), None, **constants).loss

    point = x.clone().requires_grad_()
    loss(point).backward()
    for i in range(6):
        moved = [x.clone(), x.clone()]
        moved[0][i] += 1e-6
        moved[1][i] -= 1e-6
        assert point.grad is not None
        assert float(point.grad[i]) == pytest.approx(float(loss(moved[0]) - loss(moved[1])) / 2e-6, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
@pytest.mark.parametrize("advantage", [2.0, -3.0])
def test_where_nothing_moved_the_slope_is_the_advantage(surrogate: Any, advantage: float) -> None:
    assert float(one_row(surrogate, 1.0, advantage).dlogp) == pytest.approx(advantage, rel=1e-12)


@pytest.mark.parametrize(
    ("surrogate", "ratio", "advantage", "objective", "slope"),
    [
        (Cispo(low=1.0, high=4.0), 7.0, 2.0, 5 * 2 * -1.0, 10.0),
        (Cispo(low=1.0, high=4.0), 0.1, 2.0, 0.1 * 2 * -1.0, 0.2),
        (Cispo(low=0.2, high=4.0), 0.1, -2.0, 0.8 * -2 * -1.0, -1.6),
        # sigmoid(ln 3) = 3/4: 4 x 3/4 = 3, slope 4 x 3/4 x 1/4 x r.
        (Sapo(tau_positive=1.0), 1 + math.log(3), 1.0, 3.0, 0.75 * (1 + math.log(3))),
        (Sapo(tau_negative=2.0), 1 + math.log(3) / 2, -1.0, -1.5, -0.75 * (1 + math.log(3) / 2)),
        # pi = e^-1 = 0.368; prox = pi / r.
        (Dppo(high=0.2), 2.0, 1.0, 2.0, 2.0),
        (Dppo(high=0.2), 4.0, 1.0, 0.0, 0.0),
        (Dppo(low=0.2), 0.5, -1.0, 0.0, 0.0),
        (Dppo(low=0.2), 4.0, -1.0, -4.0, -4.0),
        (Gspo(), 1.0005, 1.0, 1.0004, 0.0),
        (Gspo(), 0.9996, -1.0, -0.9997, 0.0),
        (Gspo(), 1.0005, -1.0, -1.0005, -1.0005),
    ],
    ids=str,
)
def test_rows_by_hand(surrogate: Any, ratio: float, advantage: float, objective: float, slope: float) -> None:
    terms = one_row(surrogate, ratio, advantage)
    assert float(terms.objective) == pytest.approx(objective, rel=1e-12)
    assert float(terms.dlogp) == pytest.approx(slope, rel=1e-12)


def test_a_sequence_has_one_ratio_by_hand() -> None:
    # Log ratios 0.3, 0 and -0.9 of one sequence have mean -0.2; the other sequence stands still.
    x = torch.zeros(5, 1, dtype=torch.float64, requires_grad=True)
    now = -math.log(2)
    out = policy_loss(
        x,
        torch.tensor([[1.0], [0.0]], dtype=torch.float64),
        torch.zeros(5, dtype=torch.long),
        None,
        advantages=torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64),
        behaviour_logprobs=torch.tensor([now - 0.3, now, now + 0.9, now, now], dtype=torch.float64),
        row_weights=torch.tensor([5 / 6] * 3 + [5 / 4] * 2),
        sequences=torch.tensor([7, 7, 7, 2, 2]),
        num_trainable_tokens=5,
        surrogate=Gspo(low=0.5, high=0.5),
        correction=NONE,
    )
    s = math.exp(-0.2)
    assert float(out.loss.detach()) == pytest.approx(-(s - 1) / 2)
    out.loss.backward()
    assert x.grad is not None
    # Seq-mean-token-mean: each token of a sequence of n gets A s / (S n); d logp / dx = 1/2.
    assert x.grad[:, 0].tolist() == pytest.approx([-s / 12] * 3 + [1 / 8] * 2)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_extreme_ratios_stay_finite(surrogate: Any) -> None:
    c = inputs_of(surrogate, "behaviour", 23)
    now = c["behaviour_logprobs"]
    for shift in (1e4, -1e4):
        out, loss, dh, dw = run(
            policy_loss, {**c, "behaviour_logprobs": now + shift}, surrogate=surrogate, correction=TIS
        )
        assert all(bool(t.isfinite().all()) for t in (loss, dh, dw))
        assert out.num_nonfinite == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.sampled_from([5, 12]), which=st.integers(0, len(SURROGATES) - 1))
def test_a_split_between_sequences_changes_nothing(seed: int, cut: int, which: int) -> None:
    surrogate = SURROGATES[which]
    c = inputs_of(surrogate, "proximal", seed)
    options: dict[str, Any] = {"surrogate": surrogate, "correction": Correction(name="sequence_tis", high=1.5)}
    n = max(1, int(c["mask"].sum()))
    _, loss, dh, dw = run(policy_loss, c, **options)
    parts = [{k: v if k == "weight" else v[a:b] for k, v in c.items()} for a, b in ((0, cut), (cut, 23))]
    done = [run(policy_loss, part, **options, num_trainable_tokens=n) for part in parts]
    assert float(done[0][1] + done[1][1]) == pytest.approx(float(loss), rel=1e-10, abs=1e-13)
    torch.testing.assert_close(torch.cat([d[2] for d in done]), dh, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(done[0][3] + done[1][3], dw, rtol=1e-10, atol=1e-13)


def test_poison_in_masked_rows_reaches_no_sequence() -> None:
    options: dict[str, Any] = {"surrogate": Gspo(), "correction": Correction(name="sequence_tis"), "kl": Kl()}
    c = {**case(13), "sequences": SEQUENCES}
    c["reference_logprobs"] = c["behaviour_logprobs"] - 0.1
    clean = run(policy_loss, c, **options)
    dirty = {k: v.clone() for k, v in c.items()}
    out = ~c["mask"]
    dirty["hidden"][out], dirty["targets"][out], dirty["sequences"][out] = math.nan, -100, 10**12
    for name in ("advantages", "behaviour_logprobs", "proximal_logprobs", "reference_logprobs"):
        dirty[name][out] = math.inf
    poisoned = run(policy_loss, dirty, **options)
    for a, b in zip(clean[1:], poisoned[1:], strict=True):
        assert torch.equal(a, b)
    assert clean[0].metrics == poisoned[0].metrics


@pytest.mark.parametrize(
    ("surrogate", "correction", "where"),
    [
        (Gspo(low=0.2, high=0.2), TIS, "hidden"),
        (Gspo(low=0.2, high=0.2), TIS, "proximal_logprobs"),
        (Clip(), Correction(name="geometric_mask", low=0.5, high=1.02), "behaviour_logprobs"),
        (Clip(), Correction(name="sequence_tis", high=5.0), "behaviour_logprobs"),
    ],
    ids=str,
)
def test_a_nonfinite_row_leaves_its_sequence_as_if_it_were_not_there(surrogate: Any, correction: Any, where: str):
    options: dict[str, Any] = {"surrogate": surrogate, "correction": correction}
    c = {**case(17), "sequences": SEQUENCES}
    c["mask"][:] = True
    broken = {k: v.clone() for k, v in c.items()}
    broken[where][[2, 9]] = -math.inf
    out, loss, dh, _ = run(policy_loss, broken, **options, num_trainable_tokens=23)
    c["mask"][[2, 9]] = False
    _, ref, ref_dh, _ = run(policy_loss, c, **options, num_trainable_tokens=23)
    assert out.num_nonfinite == 2
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    torch.testing.assert_close(dh, ref_dh)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_nothing_in_the_mask_is_loss_zero(surrogate: Any) -> None:
    c = {**without(case(15), "proximal_logprobs"), "sequences": SEQUENCES}
    c["mask"][:] = False
    out, loss, dh, dw = run(policy_loss, c, surrogate=surrogate, correction=TIS)
    assert float(loss) == 0.0
    assert not dh.any()
    assert not dw.any()
    assert out.metrics == {}


def test_shares_of_clipped_rows_are_counted() -> None:
    c = without(case(11, tokens=4), "proximal_logprobs")
    c["mask"][:] = True
    now, _ = dense_logprobs(c["hidden"], c["weight"], c["targets"], c["mask"])
    c["behaviour_logprobs"] = now - torch.tensor([0.5, 0.5, -0.5, 0.0])
    c["advantages"] = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    c["sequences"] = torch.arange(4)
    for surrogate, low, high in ((Clip(), 0.25, 0.25), (Gspo(), 0.25, 0.25), (Cispo(high=0.5), 0.0, 0.5)):
        metrics = run(policy_loss, c, surrogate=surrogate, correction=TIS)[0].metrics
        assert (metrics["clip_fraction_low"], metrics["clip_fraction_high"]) == (low, high)
        assert ("dual_clip_fraction" in metrics) == isinstance(surrogate, Clip)
        assert "importance_truncated_fraction" not in metrics
    assert not any("clip" in name for name in run(policy_loss, c, surrogate=Sapo(), correction=TIS)[0].metrics)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"surrogate": Gspo(), "sequences": None}, "which rows belong together"),
        ({"surrogate": Gspo(), "sequences": torch.zeros(4, dtype=torch.long)}, r"sequences must be \[T\] = \[23\]"),
        ({"surrogate": Dppo()}, "Dppo measures from the behaviour policy"),
        ({"kl": Kl()}, "needs reference_logprobs"),
    ],
)
def test_wrong_calls_are_refused(change: dict[str, Any], sentence: str) -> None:
    options = {"surrogate": Clip(), "correction": TIS, **change}
    with pytest.raises(ValueError, match=sentence):
        run(policy_loss, case(47), **options)
