"""Figures of parts of a head, put together, are the figures of the whole."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentmath_kernels.head import Options, Rows  # noqa: E402
from agentmath_kernels.row_operator import TorchRows  # noqa: E402
from agentmath_kernels.vocabulary import Shard, join  # noqa: E402


def figures_of_parts(logits: Any, targets: Any, cuts: list[int]) -> Any:
    """[K, 5, C] of the parts of logits [C, V] between the cuts."""
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, logits.shape[1]], strict=True):
        row, here = Shard(first_id=begin, num_ids=logits.shape[1]).locate(targets, end - begin)
        f = TorchRows().read(logits[:, begin:end].clone(), row, 1.0, want_entropy=True)
        parts.append(torch.stack([f.peak, f.log_sum, f.logprob, f.entropy, here.to(f.logprob.dtype)]))
    return torch.stack(parts)


@given(
    seed=st.integers(0, 10**6),
    cuts=st.sets(st.integers(1, 22), max_size=5),
    offset=st.sampled_from([0.0, -300.0, 1e4]),
    scale=st.sampled_from([0.1, 3.0, 200.0]),
)
@settings(max_examples=60, deadline=None)
def test_any_cut_gives_the_figures_of_the_whole(seed: int, cuts: set[int], offset: float, scale: float):
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, 23, generator=g, dtype=torch.float64) * scale + offset
    targets = torch.randint(23, (7,), generator=g)
    logp = torch.log_softmax(logits, -1)
    entropy = -(logp.exp() * logp).sum(-1)
    parts = figures_of_parts(logits, targets, sorted(cuts))
    for rank in range(len(parts)):
        whole = join(parts, rank)
        assert torch.allclose(whole.logprob, logp.gather(1, targets[:, None])[:, 0], rtol=1e-10, atol=1e-10)
        assert torch.allclose(whole.entropy, entropy, rtol=1e-10, atol=1e-10)
    shares = sum(join(parts, rank).log_share.exp() for rank in range(len(parts)))
    assert torch.allclose(torch.as_tensor(shares), torch.ones(7, dtype=torch.float64))


def test_two_parts_by_hand():
    # p = (1/2, 1/4 | 1/4): the parts hold 3/4 and 1/4 of the probability.
    logits = torch.tensor([[math.log(2), 0.0, 0.0]], dtype=torch.float64)
    parts = figures_of_parts(logits, torch.tensor([2]), [2])
    first, second = join(parts, 0), join(parts, 1)
    assert float(first.log_share) == pytest.approx(math.log(0.75))
    assert float(second.log_share) == pytest.approx(math.log(0.25))
    assert float(first.logprob) == float(second.logprob) == pytest.approx(math.log(0.25))
    assert float(first.entropy) == pytest.approx(1.5 * math.log(2))


def test_float32_keeps_its_digits_under_a_large_common_offset():
    g = torch.Generator().manual_seed(3)
    logits, targets = torch.randn(5, 40, generator=g), torch.tensor([0, 9, 19, 20, 39])
    # Offsets that float32 represents exactly, so that both sets of logits differ by nothing else.
    logits = (logits * 64).round() / 64
    near, far = (join(figures_of_parts(x, targets, [20]), 0) for x in (logits, logits + 2.0**13))
    assert float((near.logprob - far.logprob).abs().max()) < 2e-6
    assert float((near.entropy - far.entropy).abs().max()) < 2e-6


def test_a_broken_row_of_one_part_is_broken_everywhere_and_alone():
    logits = torch.zeros(3, 8)
    logits[1, 6] = math.nan
    parts = figures_of_parts(logits, torch.tensor([0, 0, 7]), [4])
    for rank in (0, 1):
        assert join(parts, rank).logprob.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize(("first", "whole"), [(-1, 20), (13, 20), (0, 7)])
def test_a_part_outside_of_the_head_is_refused(first: int, whole: int):
    options = Options(shard=Shard(first_id=first, num_ids=whole))
    hidden, weight = torch.zeros(2, 3), torch.zeros(8, 3)
    with pytest.raises(ValueError, match=f"8 rows from id {first} on does not lie in a head of {whole} rows"):
        Rows.select(hidden, weight, torch.tensor([0, 1]), None, options)
