"""Rows that go on from a common beginning see what whole rows would see."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath_kernels.attention import ragged_attention
from agentmath_kernels.branches import NO_PARENT, BranchedRows
from agentmath_kernels.rows import PackedRows

HEADS, KEY_HEADS, DIM = 4, 2, 8


def draw(num_tokens: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(num_tokens, heads, DIM, generator=g, dtype=torch.float64) for heads in (HEADS, KEY_HEADS, KEY_HEADS)
    )
    return query, key, value


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.lists(st.integers(1, 7), max_size=4)), min_size=1, max_size=4).filter(
        lambda tree: any(branches for _, branches in tree)
    )
)
def test_branches_equal_whole_rows_forward_and_backward(tree: list[tuple[int, list[int]]]):
    roots = [root for root, _ in tree]
    lengths = roots + [own for _, branches in tree for own in branches]
    parents = [NO_PARENT] * len(roots) + [i for i, (_, branches) in enumerate(tree) for _ in branches]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    q, k, v = (x.requires_grad_() for x in draw(sum(lengths), len(lengths)))
    shared = [q, k, v]
    out = ragged_attention(q, k, v, BranchedRows.of(lengths, parents), layer=0, scale=0.3)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = torch.autograd.grad((out * weight).sum(), shared)

    q, k, v = (x.detach().requires_grad_() for x in shared)
    whole = [q, k, v]
    expected = torch.empty_like(out)
    for row, (length, parent) in enumerate(zip(lengths, parents, strict=True)):
        above = [] if parent < 0 else list(range(starts[parent], starts[parent] + lengths[parent]))
        tokens = torch.tensor(above + list(range(starts[row], starts[row] + length)))
        rows = PackedRows.of([len(tokens)])
        part = ragged_attention(q[tokens], k[tokens], v[tokens], rows, layer=0, scale=0.3)
        expected[starts[row] : starts[row] + length] = part[len(above) :]
    wanted = torch.autograd.grad((expected * weight).sum(), whole)
    torch.testing.assert_close(out, expected)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("lengths", "parents"), [([3, 0], [-1, 0]), ([3, 2], [0, -1]), ([3, 2], [-1, 1]), ([3, 2, 1], [-1, 0, 1])]
)
def test_what_is_no_tree_of_roots_first_is_refused(lengths: list[int], parents: list[int]):
    with pytest.raises(ValueError, match="roots-first"):
        BranchedRows.of(lengths, parents)
