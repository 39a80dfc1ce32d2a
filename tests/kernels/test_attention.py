"""ragged_attention against attention written out token by token in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch: Any = pytest.importorskip("torch")
from agentmath_kernels import rows as rows_module  # noqa: E402
from agentmath_kernels.attention import PlainOneToken, ragged_attention  # noqa: E402
from agentmath_kernels.rows import (  # noqa: E402
    CachedRows,
    CacheShape,
    KeyValueCache,
    PackedRows,
    continued_batches,
)

SCALE = 0.3


def by_hand(query: Any, key: Any, value: Any, lengths: list[int]) -> Any:
    """[T, Q, D], [T, K, D] -> [T, Q * D] in float64; token t looks at the tokens of its row up to itself."""
    query, key, value = query.double(), key.double(), value.double()
    group = query.shape[1] // key.shape[1]
    rows, begin = [], 0
    for length in lengths:
        for t in range(begin, begin + length):
            heads = []
            for head in range(query.shape[1]):
                k, v = key[begin : t + 1, head // group], value[begin : t + 1, head // group]
                heads.append(torch.softmax(k @ query[t, head] * SCALE, 0) @ v)
            rows.append(torch.cat(heads))
        begin += length
    return torch.stack(rows)


def random_inputs(num_tokens: int, heads: int, key_heads: int, dim: int, seed: int = 0) -> tuple[Any, Any, Any]:
    g = torch.Generator().manual_seed(seed)
    shapes = ((num_tokens, heads, dim), (num_tokens, key_heads, dim), (num_tokens, key_heads, dim))
    query, key, value = (torch.randn(*s, generator=g) for s in shapes)
    return query, key, value


def new_cache(key_heads: int, dim: int, *, num_slots: int, num_positions: int) -> KeyValueCache:
    shape = CacheShape(
        num_layers=2, num_key_value_heads=key_heads, head_dim=dim, dtype=torch.float32, device=torch.device("cpu")
    )
    return KeyValueCache(shape, num_slots=num_slots, num_positions=num_positions)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 17), min_size=1, max_size=6),
    shape=st.sampled_from([(2, 2, 4), (4, 2, 8), (3, 1, 4), (6, 3, 2)]),
    seed=st.integers(0, 99),
)
def test_packed_rows_see_themselves_and_no_other(lengths: list[int], shape: tuple[int, int, int], seed: int) -> None:
    query, key, value = random_inputs(sum(lengths), *shape, seed)
    out = ragged_attention(query, key, value, PackedRows.of(lengths), layer=0, scale=SCALE)
    assert torch.allclose(out.double(), by_hand(query, key, value, lengths), atol=1e-5)


@pytest.mark.parametrize("lengths", [[3, 3], [5, 2, 9, 1], [20, 1], [7]])
def test_gradients_are_those_of_the_written_out_form(lengths: list[int]) -> None:
    query, key, value = inputs = [x.requires_grad_() for x in random_inputs(sum(lengths), 4, 2, 4)]
    weight = torch.randn(sum(lengths), 16, generator=torch.Generator().manual_seed(5))
    out = ragged_attention(query, key, value, PackedRows.of(lengths), layer=0, scale=SCALE)
    got = torch.autograd.grad((out * weight).sum(), inputs)
    expected = torch.autograd.grad((by_hand(query, key, value, lengths) * weight).sum(), inputs)
    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_a_row_of_nan_stays_in_its_row() -> None:
    lengths = [4, 6, 3]
    query, key, value = random_inputs(13, 4, 2, 4)
    for x in (query, key, value):
        x[4:10] = torch.nan
    out = ragged_attention(query, key, value, PackedRows.of(lengths), layer=0, scale=SCALE)
    assert torch.isfinite(out[:4]).all()
    assert torch.isfinite(out[10:]).all()
    assert out[4:10].isnan().all()


@pytest.mark.parametrize("lengths", [[], [3, 0]])
def test_rows_without_tokens_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        PackedRows.of(lengths)


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_padding_wastes_at_most_a_quarter_and_loses_no_token(lengths: list[int]) -> None:
    rows = PackedRows.of(lengths)
    if rows.padding is None:
        assert len(set(lengths)) == 1
        return
    cells = sum(r * n for r, n in rows.padding.shapes)
    assert cells * (1 - rows_module.MAX_WASTE) <= sum(lengths)
    tokens = torch.arange(sum(lengths))
    assert torch.equal(rows.padding.flatten(rows.padding.batches(tokens)), tokens)


def feed(
    cache: KeyValueCache,
    inputs: tuple[Any, Any, Any],
    plan: list[tuple[int, int, int, int]],
    num_decoding: int,
) -> Any:
    """One step: plan lists (slot, position, tokens, index of its first token in inputs), decoding rows first."""
    index = np.concatenate([np.arange(i, i + n) for _, _, n, i in plan])
    write = np.concatenate([slot * cache.num_positions + np.arange(p, p + n) for slot, p, n, _ in plan])
    contexts = np.array([p + 1 for _, p, _, _ in plan[:num_decoding]], dtype=np.int64)
    rest = plan[num_decoding:]
    fresh = [n for _, p, n, _ in rest if p == 0]
    rows = CachedRows(
        cache=cache,
        write_index=torch.from_numpy(write),
        num_decoding=num_decoding,
        decode=PlainOneToken.of(contexts, cache.shape) if num_decoding else None,  # pyright: ignore
        fresh=PackedRows.of(fresh) if fresh else None,
        continued=continued_batches([(s, p, n) for s, p, n, _ in rest if p > 0], cache.shape.device),
        num_positions=cache.num_positions,
    )
    query, key, value = (x[torch.from_numpy(index)] for x in inputs)
    return ragged_attention(query, key, value, rows, layer=1, scale=SCALE)


@pytest.mark.parametrize("shape", [(4, 2, 8), (6, 3, 4), (4, 1, 64), (4, 4, 32), (8, 8, 16)])
@pytest.mark.parametrize("tight", [False, True])
def test_cached_steps_give_what_whole_rows_give(
    shape: tuple[int, int, int], tight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tight:  # every mask is cut, every row falls into pieces
        monkeypatch.setattr(rows_module, "MAX_MASK_ELEMENTS", 30)
        monkeypatch.setattr(rows_module, "MAX_PIECE_TOKENS", 2)
    lengths = [9, 7, 11]
    starts = [0, 9, 16]
    inputs = random_inputs(sum(lengths), *shape)
    query, key, value = inputs
    expected = by_hand(query, key, value, lengths)
    cache = new_cache(shape[1], shape[2], num_slots=4, num_positions=12)
    # Rows 0 and 1 decode in slots 0 and 1 in the end; row 2 comes in by pieces in slot 3.
    first = feed(cache, inputs, [(0, 0, 8, starts[0]), (1, 0, 3, starts[1])], 0)
    second = feed(cache, inputs, [(3, 0, 5, starts[2]), (1, 3, 3, starts[1] + 3)], 0)
    third = feed(cache, inputs, [(0, 8, 1, 8), (1, 6, 1, starts[1] + 6), (3, 5, 6, starts[2] + 5)], 2)
    got = torch.cat([first[:8], third[:1], first[8:], second[5:], third[1:2], second[:5], third[2:]])
    assert torch.allclose(got.double(), expected, atol=1e-5)


def test_other_layers_and_slots_are_left_alone() -> None:
    cache = new_cache(1, 2, num_slots=3, num_positions=4)
    feed(cache, random_inputs(2, 1, 1, 2), [(1, 0, 2, 0)], 0)
    touched = cache.data.abs().sum(-1) > 0
    assert touched[1, :, 1, :2].all()
    assert int(touched.sum()) == 4


def test_copy_and_swap_move_positions_between_slots() -> None:
    cache = new_cache(1, 1, num_slots=3, num_positions=4)
    for slot in range(3):
        cache.data[:, :, slot] = slot + 1
    cache.copy(0, 2, 2)
    assert cache.data[0, 0, 2].flatten().tolist() == [1, 1, 3, 3]
    cache.swap(1, 2, 3)
    assert cache.data[1, 1, 1].flatten().tolist() == [1, 1, 3, 2]
    assert cache.data[1, 1, 2].flatten().tolist() == [2, 2, 2, 3]
