from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
from agentmath.training.operators import CompiledOperators, PlainOperators  # noqa: E402


def compiled() -> CompiledOperators:
    operators = CompiledOperators.fit(torch.zeros(8, 32), 16, 48)
    if operators is None:
        pytest.skip("the compiled part of the package is missing or has no decode operators")
    return operators


def draw(*shape: int, scale: float = 1.0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * scale


def tables(num_tokens: int, size: int) -> tuple[Any, Any]:
    angle = torch.arange(num_tokens)[:, None] * 10.0 ** (-torch.arange(size // 2) / size)
    return torch.cat((angle.cos(), angle.cos()), -1), torch.cat((-angle.sin(), angle.sin()), -1)


def test_the_norm_of_3_and_4_by_hand() -> None:
    # mean square 12.5, so 3 / sqrt(12.5) and twice 4 / sqrt(12.5)
    out = PlainOperators().norm(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0]), 0.0)
    assert out[0].tolist() == pytest.approx([0.848528, 2.262742])


def test_rotation_turns_each_pair_by_its_angle() -> None:
    quarter = torch.tensor([[0.0, 0.0]]), torch.tensor([[-1.0, 1.0]])  # cos and signed sin of 90 degrees
    out = PlainOperators().heads(torch.tensor([[1.0, 2.0, 5.0, 6.0]]), None, 0.0, quarter)
    assert out.tolist() == [[[-2.0, 1.0], [-6.0, 5.0]]]


def test_swiglu_by_hand() -> None:
    out = PlainOperators().swiglu(torch.tensor([[0.0, 2.0]]), torch.tensor([[7.0, 3.0]]))
    assert out[0].tolist() == pytest.approx([0.0, 2 / (1 + 2.718281828**-2) * 3])


@pytest.mark.parametrize("num_tokens", [1, 7, 130])
@pytest.mark.parametrize("with_norm", [True, False])
def test_compiled_operators_give_the_plain_numbers(num_tokens: int, with_norm: bool) -> None:
    fast, plain = compiled(), PlainOperators()
    x, weight = draw(num_tokens, 48, scale=3.0), draw(48)
    assert torch.allclose(fast.norm(x, weight, 1e-6), plain.norm(x, weight, 1e-6), atol=1e-5, rtol=1e-6)
    head_weight = draw(16) if with_norm else None
    expected = plain.heads(x.clone(), head_weight, 1e-6, tables(num_tokens, 16))
    assert torch.allclose(fast.heads(x.clone(), head_weight, 1e-6, tables(num_tokens, 16)), expected, atol=1e-5)
    gate, up = draw(num_tokens, 48, scale=8.0), draw(num_tokens, 48)
    expected = plain.swiglu(gate, up)
    assert torch.allclose(fast.swiglu(gate.clone(), up), expected, atol=1e-6, rtol=2e-6)


def test_compiled_swiglu_holds_at_the_ends_of_the_range() -> None:
    gate = torch.tensor([[-200.0, -90.0, -1.0, -0.0, 0.0, 1.0, 90.0, 3e38]])
    out = compiled().swiglu(gate.clone(), torch.ones(1, 8))
    assert torch.allclose(out, torch.nn.functional.silu(gate), atol=1e-6, rtol=1e-6)


def test_models_that_do_not_fit_stay_with_plain_torch() -> None:
    assert CompiledOperators.fit(torch.zeros(8, 30), 16, 48) is None
    assert CompiledOperators.fit(torch.zeros(8, 32), 24, 48) is None
    assert CompiledOperators.fit(torch.zeros(8, 32), 16, 44) is None
    assert CompiledOperators.fit(torch.zeros(8, 32, dtype=torch.bfloat16), 16, 48) is None
