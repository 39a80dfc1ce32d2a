from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentmath_kernels import Clip, Correction, head, nll_loss, policy_loss, token_logprobs  # noqa: E402
from agentmath_kernels.reference import dense_logprobs, nll_loss_reference, policy_loss_reference  # noqa: E402
from loss_cases import CLIP, bytes_for, case, relative, run, without  # noqa: E402


@pytest.mark.parametrize("policy", ["proximal", "on_policy", "behaviour"])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.3])
@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_loss_and_both_gradients_equal_dense_autograd_in_float64(policy: str, temperature: float, rows: int) -> None:
    c = case(3)
    if policy != "proximal":
        c = without(c, "proximal_logprobs")
    options = {**CLIP, "temperature": temperature, "on_policy": policy == "on_policy"}
    _, loss, dh, dw = run(policy_loss, c, **options, chunk_bytes=bytes_for(rows))
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, c, **options)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    assert relative(dh, ref_dh) < 1e-12
    assert relative(dw, ref_dw) < 1e-12


def test_gradient_equals_central_differences_of_the_op_itself() -> None:
    # r is constant in mu and prox, and no bound is near, so differences of the loss see what autograd reports.
    c = case(5, tokens=6, dim=4, vocab=7)
    wide: dict[str, Any] = {"surrogate": Clip(low=0.999, high=1e6, dual=1e6), "correction": Correction(high=2.0)}
    c["mask"][:4] = True
    _, _, dh, dw = run(policy_loss, c, **wide, num_trainable_tokens=4, chunk_bytes=100)
    eps = 1e-6
    for name, grad in (("hidden", dh), ("weight", dw)):
        for at in range(grad.numel()):
            losses = []
            for sign in (1, -1):
                moved = {**c, name: c[name].clone()}
                moved[name].view(-1)[at] += sign * eps
                losses.append(float(run(policy_loss, moved, **wide, num_trainable_tokens=4)[1]))
            assert (losses[0] - losses[1]) / (2 * eps) == pytest.approx(float(grad.view(-1)[at]), abs=1e-8)


@pytest.mark.parametrize("kind", ["random", "peaked", "all_negative", "extreme", "offset"])
def test_float32_stays_within_rounding_of_float64(kind: str) -> None:
    c = case(7, tokens=64, dim=16, vocab=257)
    if kind == "peaked":
        c["hidden"] *= 8
    elif kind == "extreme":
        c["hidden"] *= 1e4 / float((c["hidden"] @ c["weight"].t()).abs().max())
    elif kind in ("all_negative", "offset"):
        shift = -300.0 if kind == "all_negative" else 1e4
        c["hidden"][:, 0], c["weight"][:, 0] = 1.0, shift
    c = {k: v.float() if v.is_floating_point() else v for k, v in c.items()}
    logp, entropy = dense_logprobs(c["hidden"], c["weight"], c["targets"], c["mask"])
    full = torch.ones_like(c["mask"])
    near = dense_logprobs(c["hidden"], c["weight"], c["targets"], full)[0]
    c["behaviour_logprobs"] = c["proximal_logprobs"] = near.float()
    out, loss, dh, dw = run(policy_loss, c, **CLIP, chunk_bytes=bytes_for(10, 257, 4))
    largest = float((c["hidden"].double() @ c["weight"].double().t()).abs().max())
    assert float((out.logprobs - logp).abs().max()) <= 5e-7 * (1 + largest)
    assert float((out.entropy - entropy).abs().max()) <= 5e-6 + 5e-7 * largest
    wide = {k: v.double() if v.is_floating_point() else v for k, v in c.items()}
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, wide, **CLIP)
    # float32 logits of size x carry an error of x 2^-24; probabilities and ratios inherit it.
    tolerance = 5e-6 * (1 + largest)
    assert float(loss) == pytest.approx(float(ref), rel=tolerance, abs=tolerance)
    assert relative(dh, ref_dh) < tolerance
    assert relative(dw, ref_dw) < tolerance


def test_bfloat16_inputs_give_the_float64_answer_of_the_same_values() -> None:
    c = case(9, tokens=40, dim=32, vocab=129, scale=0.3, dtype=torch.bfloat16)
    out, loss, dh, dw = run(policy_loss, c, **CLIP)
    wide = {**c, "hidden": c["hidden"].double(), "weight": c["weight"].double()}
    logp, _ = dense_logprobs(wide["hidden"], wide["weight"], c["targets"], c["mask"])
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, wide, **CLIP)
    assert out.logprobs.dtype == torch.float32
    assert float((out.logprobs - logp).abs().max()) < 1e-5
    assert float(loss) == pytest.approx(float(ref), rel=1e-5)
    assert dh.dtype == dw.dtype == torch.bfloat16
    assert relative(dh, ref_dh) < 2**-8
    assert relative(dw, ref_dw) < 2**-8


def test_one_token_by_hand() -> None:
    # logits (0, ln 3): p = (1/4, 3/4). Target 1 has p = 3/4, prox 1/2, mu 1/4: r = 1.5, w = min(2, 1.5) = 1.5.
    hidden = torch.tensor([[1.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([[0.0], [math.log(3)]], dtype=torch.float64)
    inputs = {"behaviour_logprobs": torch.tensor([math.log(0.25)]), "proximal_logprobs": torch.tensor([math.log(0.5)])}
    loose: dict[str, Any] = {"surrogate": Clip(low=0.9, high=9.0), "correction": Correction(high=1.5)}
    target, mask = torch.tensor([1]), torch.tensor([True])
    out = policy_loss(
        hidden, weight, target, mask, advantages=torch.tensor([2.0]), num_trainable_tokens=1, **inputs, **loose
    )
    out.loss.backward()
    assert float(out.loss.detach()) == pytest.approx(-1.5 * 1.5 * 2)
    # d loss / d logp = -4.5; d logp / d h = (1 - 3/4) ln 3.
    assert hidden.grad is not None
    assert float(hidden.grad) == pytest.approx(-4.5 * 0.25 * math.log(3))
    assert float(out.entropy) == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert out.metrics["importance_truncated_fraction"] == 1.0
    assert out.metrics["mismatch_mean"] == pytest.approx(math.log(2))


@pytest.mark.parametrize("policy", ["proximal", "on_policy", "behaviour"])
@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_an_entropy_bonus_equals_dense_autograd(policy: str, rows: int) -> None:
    c = case(13)
    if policy != "proximal":
        c = without(c, "proximal_logprobs")
    options = {**CLIP, "temperature": 0.7, "on_policy": policy == "on_policy", "entropy_coef": 0.3}
    _, loss, dh, dw = run(policy_loss, c, **options, chunk_bytes=bytes_for(rows))
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, c, **options)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    assert relative(dh, ref_dh) < 1e-12
    assert relative(dw, ref_dw) < 1e-12


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_every_backend_gives_the_entropy_bonus_of_float64(backend: Any) -> None:
    c = {k: v.float() if v.is_floating_point() else v for k, v in case(14, vocab=97).items()}
    options = {**CLIP, "temperature": 1.3, "entropy_coef": 0.5}
    _, loss, dh, dw = run(policy_loss, c, **options, backend=backend)
    wide = {k: v.double() if v.is_floating_point() else v for k, v in c.items()}
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, wide, **options)
    assert float(loss) == pytest.approx(float(ref), rel=1e-5)
    assert relative(dh, ref_dh) < 1e-5
    assert relative(dw, ref_dw) < 1e-5


def test_entropy_alone_by_hand() -> None:
    # logits (0, ln 3): p = (1/4, 3/4), H = 0.5623; d H / d logit_1 = -p (log p + H) = -3/4 (ln 3/4 + H).
    hidden = torch.tensor([[1.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([[0.0], [math.log(3)]], dtype=torch.float64)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    zero = torch.zeros(1, dtype=torch.float64)
    out = policy_loss(
        hidden,
        weight,
        torch.tensor([1]),
        None,
        advantages=zero,
        behaviour_logprobs=zero,
        num_trainable_tokens=4,
        on_policy=True,
        entropy_coef=2.0,
        **CLIP,
    )
    out.loss.backward()
    assert float(out.loss.detach()) == pytest.approx(-2 * entropy / 4)
    assert hidden.grad is not None
    assert float(hidden.grad) == pytest.approx(2 / 4 * 0.75 * (math.log(0.75) + entropy) * math.log(3))


@pytest.mark.parametrize(
    ("advantage", "ratio", "objective", "flows", "metric"),
    [
        (1.0, 1.0, 1.0, True, None),
        (1.0, 1.27, 1.27, True, None),
        (1.0, 1.5, 1.28, False, "clip_fraction_high"),
        (1.0, 0.5, 0.5, True, None),
        (-1.0, 0.5, -0.8, False, "clip_fraction_low"),
        (-1.0, 1.5, -1.5, True, None),
        (-1.0, 12.0, -10.0, False, "dual_clip_fraction"),
        (0.0, 3.0, 0.0, False, None),
    ],
)
def test_clip_table(advantage: float, ratio: float, objective: float, flows: bool, metric: str | None) -> None:
    c = case(11, tokens=1)
    c["mask"] = torch.tensor([True])
    logp, _ = dense_logprobs(c["hidden"], c["weight"], c["targets"], c["mask"])
    c = {**without(c, "proximal_logprobs"), "behaviour_logprobs": logp - math.log(ratio)}
    c["advantages"] = torch.tensor([advantage], dtype=torch.float64)
    out, loss, dh, _ = run(policy_loss, c, **CLIP)
    assert float(loss) == pytest.approx(-objective)
    assert bool((dh != 0).any()) == flows
    for name in ("clip_fraction_low", "clip_fraction_high", "dual_clip_fraction"):
        assert out.metrics[name] == (1.0 if name == metric else 0.0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 23), max_size=4), rows=st.integers(1, 30))
def test_any_split_into_microbatches_gives_the_same_gradient(seed: int, cuts: list[int], rows: int) -> None:
    c = case(seed)
    n = max(1, int(c["mask"].sum()))
    _, loss, dh, dw = run(policy_loss, c, **CLIP)
    bounds = [0, *sorted(cuts), 23]
    total, dhs, dws = 0.0, [], torch.zeros_like(dw)
    for a, b in itertools.pairwise(bounds):
        part = {k: v if k == "weight" else v[a:b] for k, v in c.items()}
        _, part_loss, h, w = run(policy_loss, part, **CLIP, num_trainable_tokens=n, chunk_bytes=bytes_for(rows))
        total, dws = total + float(part_loss), dws + w
        dhs.append(h)
    assert total == pytest.approx(float(loss), rel=1e-10, abs=1e-13)
    torch.testing.assert_close(torch.cat(dhs), dh, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(dws, dw, rtol=1e-10, atol=1e-13)


def test_poison_in_masked_rows_changes_nothing() -> None:
    c = case(13)
    clean = run(policy_loss, c, **CLIP)
    dirty = {k: v.clone() for k, v in c.items()}
    out = ~c["mask"]
    dirty["hidden"][out] = math.nan
    dirty["targets"][out] = -100
    dirty["advantages"][out] = math.inf
    dirty["behaviour_logprobs"][out] = math.nan
    dirty["proximal_logprobs"][out] = -math.inf
    poisoned = run(policy_loss, dirty, **CLIP)
    for a, b in zip(clean[1:], poisoned[1:], strict=True):
        assert torch.equal(a, b)
    assert clean[0].metrics == poisoned[0].metrics
    assert not poisoned[2][out].any()


@pytest.mark.parametrize("tokens", [0, 9])
@pytest.mark.parametrize("op", [policy_loss, nll_loss])
def test_all_masked_has_zero_loss_zero_gradient_and_no_metrics(tokens: int, op: Any) -> None:
    c = case(15, tokens=tokens)
    c["mask"][:] = False
    c["hidden"][:] = math.nan
    options = {}
    if op is policy_loss:
        options = CLIP
    else:
        c = without(c, "advantages", "behaviour_logprobs", "proximal_logprobs")
    out, loss, dh, dw = run(op, c, **options, num_trainable_tokens=100)
    assert float(loss) == 0.0
    assert not dh.any()
    assert not dw.any()
    assert out.metrics == {}
    assert out.num_rows == out.num_nonfinite == out.logprobs.numel() == 0


@pytest.mark.parametrize("where", ["hidden_nan", "hidden_inf", "behaviour", "advantage", "proximal"])
def test_nonfinite_rows_are_counted_and_excluded(where: str) -> None:
    c = case(17)
    c["mask"][:] = True
    bad = [2, 11]
    broken = {k: v.clone() for k, v in c.items()}
    value = math.inf if where in ("hidden_inf", "behaviour") else math.nan
    name = {"behaviour": "behaviour_logprobs", "advantage": "advantages", "proximal": "proximal_logprobs"}
    broken[name.get(where, "hidden")][bad] = value
    out, loss, dh, dw = run(policy_loss, broken, **CLIP, num_trainable_tokens=23, chunk_bytes=bytes_for(4))
    c["mask"][bad] = False
    _, ref, ref_dh, ref_dw = run(policy_loss, c, **CLIP, num_trainable_tokens=23)
    assert out.num_nonfinite == 2
    assert out.num_rows == 21
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    torch.testing.assert_close(dh, ref_dh)
    torch.testing.assert_close(dw, ref_dw)
    assert all(math.isfinite(v) for v in out.metrics.values())


def test_a_nan_weight_breaks_every_row_and_leaves_no_nan_gradient() -> None:
    c = case(19)
    c["weight"][0, 0] = math.nan
    out, loss, dh, dw = run(policy_loss, c, **CLIP)
    assert out.num_rows == 0
    assert out.num_nonfinite == int(c["mask"].sum())
    assert float(loss) == 0.0
    assert not dh.any()
    assert not dw.any()
    assert out.metrics == {}


def test_forbidden_vocabulary_entries_keep_entropy_finite() -> None:
    # Row 4 of the head sends every logit of that entry to -inf, as a padded vocabulary does.
    c = case(21)
    c["hidden"][:, 0] = 1.0
    c["weight"][4] = 0.0
    c["weight"][4, 0] = -math.inf
    c["targets"][c["targets"] == 4] = 5
    out = policy_loss(
        c.pop("hidden"), c.pop("weight"), c.pop("targets"), c.pop("mask"), **c, **CLIP, num_trainable_tokens=9
    )
    assert bool(out.entropy.isfinite().all())
    assert float(out.entropy.max()) <= math.log(36)
    assert out.num_nonfinite == 0


def test_extreme_ratios_stay_finite() -> None:
    c = case(23)
    c["mask"][:] = True
    for shift in (1e4, -1e4):
        c["behaviour_logprobs"] = c["proximal_logprobs"] + shift
        far = {**c, "proximal_logprobs": c["proximal_logprobs"] + shift}
        for inputs in (c, far):
            out, loss, dh, dw = run(policy_loss, inputs, **CLIP)
            assert all(bool(t.isfinite().all()) for t in (loss, dh, dw))
            assert out.num_nonfinite == 0
            _, ref, ref_dh, _ = run(policy_loss_reference, inputs, **CLIP)
            assert float(loss) == pytest.approx(float(ref), rel=1e-10)
            torch.testing.assert_close(dh, ref_dh)


def test_equal_policies_give_the_plain_policy_gradient() -> None:
    c = without(case(25), "proximal_logprobs")
    full = torch.ones_like(c["mask"])
    c["behaviour_logprobs"] = dense_logprobs(c["hidden"], c["weight"], c["targets"], full)[0]
    coupled = run(policy_loss, c, **CLIP)
    current = run(policy_loss, c, **CLIP, on_policy=True)
    hidden = c["hidden"].clone().requires_grad_()
    logp, _ = dense_logprobs(hidden, c["weight"], c["targets"], c["mask"])
    (-(c["advantages"][c["mask"]] * logp).sum() / int(c["mask"].sum())).backward()
    torch.testing.assert_close(coupled[2], hidden.grad)
    torch.testing.assert_close(current[2], hidden.grad)
    assert coupled[0].metrics["mismatch_max"] < 1e-12


def test_on_policy_equals_a_separate_proximal_pass() -> None:
    c = case(27)
    c["proximal_logprobs"] = token_logprobs(c["hidden"], c["weight"], c["targets"], temperature=0.7)
    given_pass = run(policy_loss, c, **CLIP, temperature=0.7)
    current = run(policy_loss, without(c, "proximal_logprobs"), **CLIP, temperature=0.7, on_policy=True)
    for a, b in zip(given_pass[1:], current[1:], strict=True):
        torch.testing.assert_close(a, b)
    assert given_pass[0].metrics == pytest.approx(current[0].metrics)


def test_doubling_advantages_or_weights_doubles_the_gradient() -> None:
    c = case(29)
    _, _, dh, _ = run(policy_loss, c, **CLIP)
    _, _, twice_a, _ = run(policy_loss, {**c, "advantages": 2 * c["advantages"]}, **CLIP)
    _, _, twice_w, _ = run(policy_loss, c, **CLIP, row_weights=torch.full((23,), 2.0))
    torch.testing.assert_close(twice_a, 2 * dh)
    torch.testing.assert_close(twice_w, 2 * dh)


def test_row_weights_act_per_row_as_in_the_reference() -> None:
    c = case(31)
    w = torch.rand(23, dtype=torch.float64) * 3
    _, loss, dh, dw = run(policy_loss, c, **CLIP, row_weights=w, chunk_bytes=bytes_for(3))
    _, ref, ref_dh, ref_dw = run(policy_loss_reference, c, **CLIP, row_weights=w)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    torch.testing.assert_close(dh, ref_dh)
    torch.testing.assert_close(dw, ref_dw)


def test_upstream_factor_scales_and_a_second_backward_is_refused() -> None:
    c = case(33)
    hidden = c.pop("hidden").requires_grad_()
    weight, targets, mask = c.pop("weight"), c.pop("targets"), c.pop("mask")
    out = policy_loss(hidden, weight, targets, mask, **c, **CLIP, num_trainable_tokens=5)
    (once,) = torch.autograd.grad(out.loss * 1.0, hidden, retain_graph=True)
    assert once.any()
    with pytest.raises(RuntimeError, match="inplace"):
        torch.autograd.grad(out.loss, hidden)
    scaled = policy_loss(hidden, weight, targets, mask, **c, **CLIP, num_trainable_tokens=5)
    (three,) = torch.autograd.grad(scaled.loss * 3.0, hidden)
    torch.testing.assert_close(three, 3 * once)


def test_double_backward_is_refused() -> None:
    c = case(35)
    hidden = c.pop("hidden").requires_grad_()
    weight, targets, mask = c.pop("weight"), c.pop("targets"), c.pop("mask")
    out = policy_loss(hidden, weight, targets, mask, **c, **CLIP, num_trainable_tokens=5)
    (grad,) = torch.autograd.grad(out.loss * hidden.sum(), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_a_frozen_head_gets_no_gradient_and_no_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    c = case(37)
    made: list[tuple[bool, bool]] = []
    original = head._Walk.prepare_gradients
    monkeypatch.setattr(
        head._Walk, "prepare_gradients", lambda self, h, w: (made.append((h, w)), original(self, h, w))[1]
    )
    hidden = c.pop("hidden").requires_grad_()
    args = (hidden, c.pop("weight"), c.pop("targets"), c.pop("mask"))
    policy_loss(*args, **c, **CLIP, num_trainable_tokens=5).loss.backward()
    with torch.no_grad():
        policy_loss(*args, **c, **CLIP, num_trainable_tokens=5)
    assert made == [(True, False), (False, False)]


def test_no_tensor_of_all_tokens_by_vocabulary_is_made() -> None:
    tokens, vocab, rows = 512, 4099, 16
    c = case(39, tokens=tokens, dim=8, vocab=vocab, dtype=torch.float32)
    c["mask"][:] = True
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            for t in result if isinstance(result, tuple | list) else [result]:
                if isinstance(t, torch.Tensor):
                    largest = max(largest, t.numel())
            return result

    with Watch():
        run(policy_loss, c, **CLIP, chunk_bytes=bytes_for(rows, vocab, 4))
    assert largest == max(rows * vocab, vocab * 8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), vocab=st.sampled_from([1, 2, 17, 127, 129]), dim=st.sampled_from([1, 5, 40]))
def test_entropy_lies_between_nothing_and_uniform(seed: int, vocab: int, dim: int) -> None:
    c = case(seed, vocab=vocab, dim=dim, dtype=torch.float32)
    out, _, dh, _ = run(policy_loss, c, **CLIP)
    assert bool((out.entropy >= -1e-6).all())
    assert bool((out.entropy <= math.log(vocab) + 1e-5).all())
    assert bool((out.logprobs <= 1e-6).all())
    assert bool(dh.isfinite().all())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_order_of_rows_does_not_matter(seed: int) -> None:
    c = case(seed)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(seed))
    _, loss, dh, dw = run(policy_loss, c, **CLIP)
    _, loss2, dh2, dw2 = run(policy_loss, {k: v if k == "weight" else v[order] for k, v in c.items()}, **CLIP)
    assert float(loss) == pytest.approx(float(loss2), rel=1e-10, abs=1e-13)
    torch.testing.assert_close(dh[order], dh2)
    torch.testing.assert_close(dw, dw2)


@pytest.mark.parametrize("rows", [1, 6, 100])
def test_nll_equals_dense_autograd(rows: int) -> None:
    c = without(case(41), "advantages", "behaviour_logprobs", "proximal_logprobs")
    out, loss, dh, dw = run(nll_loss, c, num_trainable_tokens=50, chunk_bytes=bytes_for(rows))
    _, ref, ref_dh, ref_dw = run(nll_loss_reference, c, num_trainable_tokens=50)
    assert float(loss) == pytest.approx(float(ref), rel=1e-12)
    torch.testing.assert_close(dh, ref_dh)
    torch.testing.assert_close(dw, ref_dw)
    assert out.metrics["nll"] == pytest.approx(float(ref) * 50 / int(c["mask"].sum()))


def test_token_logprobs_equal_the_losss_own_and_carry_no_graph() -> None:
    c = case(43)
    out, *_ = run(policy_loss, c, **CLIP, temperature=0.8, chunk_bytes=bytes_for(4))
    some = token_logprobs(
        c["hidden"].requires_grad_(), c["weight"], c["targets"], c["mask"], temperature=0.8, chunk_bytes=bytes_for(4)
    )
    every = token_logprobs(c["hidden"], c["weight"], c["targets"], temperature=0.8)
    assert torch.equal(some, out.logprobs)
    assert not some.requires_grad
    torch.testing.assert_close(every[c["mask"]], some)


def test_ids_may_be_int32_and_hidden_not_contiguous() -> None:
    c = case(45)
    expected = run(policy_loss, c, **CLIP)
    c["targets"] = c["targets"].int()
    c["hidden"] = c["hidden"].t().contiguous().t()
    for a, b in zip(expected[1:], run(policy_loss, c, **CLIP)[1:], strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"targets": torch.full((23,), 37)}, "the head has 37 rows"),
        ({"targets": torch.zeros(22, dtype=torch.long)}, "targets must be"),
        ({"mask": torch.ones(23)}, "mask must be bool"),
        ({"advantages": torch.ones(7)}, "advantages must be"),
        ({"num_trainable_tokens": 0}, "num_trainable_tokens is 0"),
        ({"temperature": 0.0}, "temperature is 0"),
        ({"on_policy": True}, "do not give proximal_logprobs"),
    ],
)
def test_wrong_calls_are_refused_with_the_value(change: dict[str, Any], sentence: str) -> None:
    c = case(47)
    args = {"num_trainable_tokens": 5, "lm_head_weight": c.pop("weight"), **c, **CLIP, **change}
    with pytest.raises(ValueError, match=sentence):
        policy_loss(**args)
