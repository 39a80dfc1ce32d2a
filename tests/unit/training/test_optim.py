from __future__ import annotations

import copy
import io
import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentmath.config.training import OptimizerSection  # noqa: E402
from agentmath.core.errors import CheckpointError, TrainingError  # noqa: E402
from agentmath.training.optim import Optimizer, is_hidden_matrix, learning_rate_at  # noqa: E402


def section(**values: Any) -> OptimizerSection:
    return OptimizerSection.model_validate({"learning_rate": 0.1, **values})


def model(dtype: Any = None) -> Any:
    g = torch.Generator().manual_seed(0)
    make = lambda *s: torch.nn.Parameter(torch.randn(*s, generator=g).to(dtype or torch.float32))  # noqa: E731
    return torch.nn.ParameterDict({"embed_tokens": make(7, 4), "mlp": make(6, 4), "norm": make(4)})


def fill_gradients(m: Any, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    for p in m.values():
        p.grad = torch.randn(p.shape, generator=g).to(p.dtype)


def run(m: Any, optimizer: Optimizer, steps: range) -> list[float]:
    norms = []
    for step in steps:
        optimizer.zero_grad()
        fill_gradients(m, step)
        optimizer.collect()
        norms.append(optimizer.step(step))
    return norms


def test_warmup_then_constant_by_hand() -> None:
    s = section(warmup_steps=4)
    assert [learning_rate_at(t, s, total_steps=10) for t in range(6)] == pytest.approx(
        [0.025, 0.05, 0.075, 0.1, 0.1, 0.1]
    )


def test_cosine_falls_to_a_tenth_at_the_last_step() -> None:
    s = section(warmup_steps=2, schedule="cosine")
    rates = [learning_rate_at(t, s, total_steps=13) for t in range(13)]
    assert rates[2] == pytest.approx(0.1)
    assert rates[7] == pytest.approx(0.1 * (0.1 + 0.9 * 0.5))
    assert rates[12] == pytest.approx(0.01)
    assert all(a >= b for a, b in itertools.pairwise(rates[2:]))
    assert learning_rate_at(50, s, total_steps=13) == pytest.approx(0.01)


@pytest.mark.parametrize("total", [1, 2, 3])
def test_a_schedule_shorter_than_its_warmup_is_fine(total: int) -> None:
    s = section(warmup_steps=2, schedule="cosine")
    assert all(0 < learning_rate_at(t, s, total_steps=total) <= 0.1 for t in range(total))


def test_the_first_adamw_step_moves_each_weight_by_the_learning_rate() -> None:
    m = model()
    before = copy.deepcopy(m)
    optimizer = Optimizer(m.items(), section(max_grad_norm=1e9), total_steps=1)
    run(m, optimizer, range(1))
    for name, p in m.items():
        assert float(((p - before[name]).abs() - 0.1).abs().max().detach()) < 1e-5


def test_gradients_are_clipped_to_the_norm_and_the_norm_before_it_is_returned() -> None:
    m = model()
    optimizer = Optimizer(m.items(), section(max_grad_norm=0.5), total_steps=1)
    fill_gradients(m, 1)
    expected = math.sqrt(sum(float((p.grad**2).sum()) for p in m.values()))
    assert optimizer.step(0) == pytest.approx(expected)
    assert math.sqrt(sum(float((p.grad**2).sum()) for p in m.values())) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_nonfinite_gradient_changes_nothing(name: str, bad: float) -> None:
    m = model()
    optimizer = Optimizer(m.items(), section(name=name), total_steps=5)
    run(m, optimizer, range(2))
    weights, state = copy.deepcopy(m), copy.deepcopy(optimizer.state_dict())
    fill_gradients(m, 9)
    m["norm"].grad[1] = bad
    assert not math.isfinite(optimizer.step(2))
    assert all(torch.equal(p, weights[n]) for n, p in m.items())
    assert torch.equal(
        optimizer.state_dict()["parts"]["adamw"]["state"][0]["exp_avg"], state["parts"]["adamw"]["state"][0]["exp_avg"]
    )


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_save_and_load_continue_bit_for_bit(name: str, dtype: Any) -> None:
    s = section(name=name, weight_decay=0.01, warmup_steps=3, schedule="cosine")
    whole = model(dtype)
    run(whole, Optimizer(whole.items(), s, total_steps=6), range(6))

    half = model(dtype)
    first = Optimizer(half.items(), s, total_steps=6)
    run(half, first, range(3))
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    resumed = model(dtype)
    resumed.load_state_dict(half.state_dict())
    second = Optimizer(resumed.items(), s, total_steps=6)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    run(resumed, second, range(3, 6))
    assert all(torch.equal(p, resumed[n]) for n, p in whole.items())


def test_muon_moves_hidden_matrices_and_adamw_the_rest() -> None:
    m = model()
    optimizer = Optimizer(m.items(), section(name="muon"), total_steps=1)
    parts = optimizer.state_dict()["parts"]
    assert {k: len(v["param_groups"][0]["params"]) for k, v in parts.items()} == {"muon": 1, "adamw": 2}
    assert is_hidden_matrix("model.layers.0.mlp.up_proj.weight", m["mlp"])
    assert not is_hidden_matrix("model.embed_tokens.weight", m["mlp"])
    assert not is_hidden_matrix("lm_head.weight", m["mlp"])
    assert not is_hidden_matrix("model.norm.weight", m["norm"])


def test_muon_steps_are_orthogonal_and_scaled_like_adamw() -> None:
    m = model()
    before = m["mlp"].detach().clone()
    optimizer = Optimizer(m.items(), section(name="muon", max_grad_norm=1e9), total_steps=1)
    run(m, optimizer, range(1))
    values = torch.linalg.svdvals((m["mlp"] - before).detach())
    # 0.2 sqrt(max(rows, columns)) x learning rate, up to the few Newton-Schulz iterations' error.
    assert values / (0.1 * 0.2 * math.sqrt(6)) == pytest.approx(torch.ones(4), abs=0.35)


def test_decay_pulls_hidden_matrices_only() -> None:
    m = model()
    before = copy.deepcopy(m)
    optimizer = Optimizer(m.items(), section(weight_decay=0.5), total_steps=1)
    for p in m.values():
        p.grad = torch.zeros_like(p)
    optimizer.step(0)
    torch.testing.assert_close(m["mlp"], before["mlp"] * (1 - 0.1 * 0.5))
    assert torch.equal(m["norm"], before["norm"])
    assert torch.equal(m["embed_tokens"], before["embed_tokens"])


def test_small_steps_are_not_lost_in_bfloat16() -> None:
    # 1 and 1e-4: a bfloat16 weight alone would stay 1 forever.
    m = torch.nn.ParameterDict({"norm": torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))})
    optimizer = Optimizer(m.items(), section(learning_rate=1e-4), total_steps=100)
    for step in range(100):
        m["norm"].grad = torch.ones(4, dtype=torch.bfloat16)
        optimizer.collect()
        optimizer.step(step)
        optimizer.zero_grad()
    assert m["norm"].tolist() == pytest.approx([0.99] * 4, abs=2**-8)
    assert optimizer.state_dict()["masters"]["norm"].tolist() == pytest.approx([0.99] * 4, abs=1e-5)


def test_narrow_gradients_are_summed_in_float32() -> None:
    m = torch.nn.ParameterDict({"norm": torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))})
    optimizer = Optimizer(m.items(), section(max_grad_norm=1e9), total_steps=1)
    for value in [256.0] + [1.0] * 8:
        m["norm"].grad = torch.tensor([value], dtype=torch.bfloat16)
        optimizer.collect()
    # In bfloat16 256 + 1 is 256.
    assert optimizer.step(0) == 264.0


def test_weights_set_from_outside_are_taken_over() -> None:
    m = model(torch.bfloat16)
    optimizer = Optimizer(m.items(), section(), total_steps=2)
    run(m, optimizer, range(1))
    with torch.no_grad():
        m["norm"].fill_(0.5)
    optimizer.read_weights()
    assert optimizer.state_dict()["masters"]["norm"].tolist() == [0.5] * 4


def test_settings_of_the_present_recipe_hold_after_loading() -> None:
    m = model()
    first = Optimizer(m.items(), section(weight_decay=0.0), total_steps=2)
    run(m, first, range(1))
    second = Optimizer(m.items(), section(weight_decay=0.5), total_steps=2)
    second.load_state_dict(first.state_dict())
    groups = second.state_dict()["parts"]["adamw"]["param_groups"]
    assert [g["weight_decay"] for g in groups] == [0.5, 0.0]
    assert int(second.state_dict()["parts"]["adamw"]["state"][0]["step"]) == 1


def test_another_optimisers_state_is_refused() -> None:
    m = model()
    muon = Optimizer(m.items(), section(name="muon"), total_steps=1).state_dict()
    with pytest.raises(CheckpointError, match="adamw\\+muon, 3 tensors"):
        Optimizer(m.items(), section(), total_steps=1).load_state_dict(muon)


def test_frozen_parameters_are_left_alone_and_all_frozen_is_refused() -> None:
    m = model()
    m["mlp"].requires_grad_(False)
    optimizer = Optimizer(m.items(), section(), total_steps=1)
    assert optimizer.state_dict()["names"] == ["embed_tokens", "norm"]
    for p in m.values():
        p.requires_grad_(False)
    with pytest.raises(TrainingError, match="nothing to train"):
        Optimizer(m.items(), section(), total_steps=1)
