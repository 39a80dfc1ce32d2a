"""Liger-Kernel's chunked GRPO loss beside ours, where the formula is the same: value and both gradients.

The same: ppo_clip without dual clip, token-mean (its "bnpo"), per-sequence advantages, k3 penalty, cispo. What differs
and is not compared: its default aggregation "dapo" counts the tokens of a micro-batch; it has no float64, so the
tolerance is float32's; its importance correction takes weights that the caller made.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
grpo = pytest.importorskip(
    "liger_kernel.chunked_loss.grpo_loss", reason="liger-kernel is not installed: pip install 'agentmath[bench]'"
)

from agentmath_kernels import Cispo, Clip, Correction, Kl, policy_loss  # noqa: E402
from loss_cases import case, relative  # noqa: E402

SEQUENCES, LONGEST, VOCAB, DIM = 4, 6, 37, 12


def inputs(seed: int) -> dict[str, Any]:
    """Sequences of LONGEST tokens, padded at the end; interpreter tokens stand in the middle."""
    c = case(seed, tokens=SEQUENCES * LONGEST, dim=DIM, vocab=VOCAB, dtype=torch.float32)
    column = torch.arange(LONGEST).repeat(SEQUENCES)
    length = torch.tensor([6, 4, 5, 2]).repeat_interleave(LONGEST)
    c["mask"] = (column < length) & (column != 1)
    c["advantages"] = torch.randn(SEQUENCES, generator=torch.Generator().manual_seed(seed)).repeat_interleave(LONGEST)
    c["reference_logprobs"] = c.pop("proximal_logprobs").float()
    c["behaviour_logprobs"] = c["behaviour_logprobs"].float()
    return c


def theirs(c: dict[str, Any], **options: Any) -> tuple[Any, Any, Any]:
    """(loss, dHidden, dWeight)."""
    hidden = c["hidden"].clone().requires_grad_()
    weight = c["weight"].clone().requires_grad_()
    shaped = {k: v.reshape(SEQUENCES, LONGEST) for k, v in c.items() if k not in ("hidden", "weight")}
    loss = grpo.LigerFusedLinearGRPOLoss(compiled=False, **options)(
        hidden.reshape(SEQUENCES, LONGEST, DIM),
        weight,
        shaped["targets"],
        shaped["mask"].long(),
        shaped["advantages"][:, 0],
        ref_per_token_logps=shaped["reference_logprobs"] if options["beta"] else None,
        old_per_token_logps=shaped["behaviour_logprobs"],
    )[0]
    loss.backward()
    return loss.detach(), hidden.grad, weight.grad


def ours(c: dict[str, Any], **options: Any) -> tuple[Any, Any, Any]:
    hidden = c["hidden"].clone().requires_grad_()
    weight = c["weight"].clone().requires_grad_()
    rest = {k: c[k] for k in ("advantages", "behaviour_logprobs", "reference_logprobs")}
    out = policy_loss(
        hidden,
        weight,
        c["targets"],
        c["mask"],
        num_trainable_tokens=int(c["mask"].sum()),
        correction=Correction(name="none"),
        **rest,
        **options,
    )
    out.loss.backward()
    return out.loss.detach(), hidden.grad, weight.grad


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("liger", "agentmath"),
    [
        ({"beta": 0.0, "epsilon_low": 0.2, "epsilon_high": 0.28}, {"surrogate": Clip(low=0.2, high=0.28)}),
        (
            {"beta": 0.0, "epsilon_low": 0.2, "epsilon_high": 0.28, "temperature": 0.7},
            {"surrogate": Clip(low=0.2, high=0.28), "temperature": 0.7},
        ),
        (
            {"beta": 0.4, "epsilon_low": 0.2, "epsilon_high": 0.28},
            {"surrogate": Clip(low=0.2, high=0.28), "kl": Kl(estimate="k3", coef=0.4)},
        ),
    ],
    ids=["clip", "temperature", "k3"],
)
def test_value_and_gradients_agree_within_float32(seed: int, liger: dict[str, Any], agentmath: dict[str, Any]) -> None:
    c = inputs(seed)
    loss, dhidden, dweight = theirs(c, loss_type="bnpo", use_ref_model=bool(liger["beta"]), **liger)
    our_loss, our_dhidden, our_dweight = ours(c, **agentmath)
    assert float(our_loss) == pytest.approx(float(loss), rel=2e-5, abs=2e-6)
    assert relative(our_dhidden, dhidden) < 2e-5
    assert relative(our_dweight, dweight) < 2e-5


def test_cispo_agrees_within_float32() -> None:
    c = inputs(3)
    # Theirs cuts the weight at epsilon_high itself, ours at 1 + high; neither has a lower bound here.
    loss, dhidden, dweight = theirs(c, loss_type="cispo", beta=0.0, epsilon_high=1.1, use_ref_model=False)
    our_loss, our_dhidden, our_dweight = ours(c, surrogate=Cispo(low=1.0, high=0.1))
    assert float(our_loss) == pytest.approx(float(loss), rel=2e-5, abs=2e-6)
    assert relative(our_dhidden, dhidden) < 2e-5
    assert relative(our_dweight, dweight) < 2e-5
