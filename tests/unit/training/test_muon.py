"""Muon in float32 against torch's, and against the decomposition it approximates."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch.nn import Parameter

from agentmath.training.muon import Muon, orthogonalise


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 48), (2, 48, 16), (1, 1, 5)])
def test_singular_values_come_close_to_one_and_vectors_stay(shape: tuple[int, ...]):
    matrices = draw(*shape).double()
    out = orthogonalise(matrices)
    values = torch.linalg.svdvals(out)
    assert values.min() > 0.6
    assert values.max() < 1.3
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    core = u.mT @ out @ vh.mT
    torch.testing.assert_close(core, torch.diag_embed(torch.diagonal(core, dim1=-2, dim2=-1)), atol=1e-8, rtol=0)


def test_a_zero_gradient_gives_a_zero_update():
    assert orthogonalise(torch.zeros(1, 4, 6)).abs().max() == 0


def test_ten_steps_stay_near_torchs_own_within_its_bfloat16():
    weights = [draw(24, 40, seed=1), draw(24, 40, seed=2), draw(40, 24, seed=3)]
    ours, theirs = ([Parameter(w.clone()) for w in weights] for _ in range(2))
    mine = Muon(ours, lr=0.01, weight_decay=0.1)
    reference = torch.optim.Muon(theirs, adjust_lr_fn="match_rms_adamw", lr=0.01, weight_decay=0.1)
    for step in range(10):
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            p.grad = draw(*p.shape, seed=100 * step + i)
            q.grad = p.grad.clone()
        mine.step()
        reference.step()
    for p, q, start in zip(ours, theirs, weights, strict=True):
        moved = (q - start).norm()
        assert (p - q).norm() / moved < 0.02
        assert moved > 0.1


def test_a_parameter_without_gradient_stays_and_state_loads_back():
    p, q = Parameter(draw(4, 6)), Parameter(draw(4, 6, seed=1))
    before = q.detach().clone()
    optimizer = Muon([p, q], lr=0.1, weight_decay=0.5)
    p.grad = draw(4, 6, seed=2)
    optimizer.step()
    assert q.equal(before)
    other = Muon([Parameter(p.detach().clone()), Parameter(before)], lr=0.1, weight_decay=0.5)
    other.load_state_dict(deepcopy(optimizer.state_dict()))
    grad = draw(4, 6, seed=3)
    for o in (optimizer, other):
        o.param_groups[0]["params"][0].grad = grad.clone()
        o.step()
    assert p.equal(other.param_groups[0]["params"][0])


def test_what_is_no_matrix_is_refused():
    with pytest.raises(ValueError, match="matrices only"):
        Muon([Parameter(torch.zeros(3))], lr=0.1, weight_decay=0.0)
