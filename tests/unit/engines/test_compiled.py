from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
from agentmath.engines.compiled import best_one_token  # noqa: E402
from agentmath_kernels.attention import PlainOneToken  # noqa: E402
from agentmath_kernels.rows import CacheShape  # noqa: E402


def shape_of(key_heads: int, dim: int, dtype: Any = None) -> CacheShape:
    return CacheShape(
        num_layers=1,
        num_key_value_heads=key_heads,
        head_dim=dim,
        dtype=dtype or torch.float32,
        device=torch.device("cpu"),
    )


def compiled(shape: CacheShape) -> Any:
    prepare = best_one_token(shape)
    if prepare == PlainOneToken.of:
        pytest.skip("the compiled part of the package is missing or has no decode operators")
    return prepare


@pytest.mark.parametrize(("heads", "key_heads", "dim"), [(4, 2, 32), (9, 3, 64), (2, 2, 128), (8, 1, 96), (3, 3, 16)])
@pytest.mark.parametrize("longest", [1, 7, 8, 9, 70])
def test_compiled_attention_gives_the_plain_numbers(heads: int, key_heads: int, dim: int, longest: int) -> None:
    shape = shape_of(key_heads, dim)
    prepare = compiled(shape)
    g = torch.Generator().manual_seed(longest)
    query = torch.randn(5, heads, dim, generator=g)
    keys, values = (torch.randn(7, 80, key_heads * dim, generator=g) for _ in range(2))
    contexts = np.random.default_rng(longest).integers(1, longest + 1, 5)
    expected = PlainOneToken.of(contexts, shape)(query, keys, values, 0.2)
    assert torch.allclose(prepare(contexts, shape)(query, keys, values, 0.2), expected, atol=2e-6)


def test_the_number_of_threads_changes_no_bit() -> None:
    shape = shape_of(4, 64)
    prepare = compiled(shape)
    query, keys = torch.randn(64, 16, 64), torch.randn(64, 400, 256)
    contexts = np.random.default_rng(0).integers(1, 400, 64)
    outcomes = []
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        outcomes.append(prepare(contexts, shape)(query, keys, keys, 0.125))
    torch.set_num_threads(before)
    assert torch.equal(*outcomes)


def test_scores_of_any_size_stay_finite() -> None:
    shape = shape_of(1, 16)
    prepare = compiled(shape)
    query, keys = torch.full((1, 1, 16), 1e3), torch.zeros(1, 20, 16)
    keys[:, 3], keys[:, 4:] = 1e3, -1e3
    values = torch.arange(20.0)[None, :, None].expand(1, 20, 16).contiguous()
    assert torch.equal(prepare(np.array([20]), shape)(query, keys, values, 1.0), torch.full((1, 16), 3.0))


@pytest.mark.parametrize("contexts", [[0, 1], [1, 81], [1]])
def test_contexts_that_do_not_fit_are_refused(contexts: list[int]) -> None:
    shape = shape_of(2, 16)
    prepare = compiled(shape)
    with pytest.raises(ValueError, match="attend_one_token"):
        prepare(np.array(contexts), shape)(torch.zeros(2, 2, 16), *(torch.zeros(2, 80, 32) for _ in range(2)), 1.0)


def test_caches_that_do_not_fit_stay_with_plain_torch() -> None:
    assert best_one_token(shape_of(1, 24)) == PlainOneToken.of
    assert best_one_token(shape_of(1, 32, torch.bfloat16)) == PlainOneToken.of


@pytest.mark.parametrize(("family", "sizes"), [("Qwen3", {}), ("Llama", {"num_attention_heads": 2, "head_dim": 32})])
def test_plain_and_compiled_decoding_agree(box: Any, family: str, sizes: dict[str, int]) -> None:
    policy = box.new_policy(family, **sizes)
    compiled(policy.cache_shape())
    fast = box.run(box.all_of(box.new_engine(policy), box.prompts(6), max_new_tokens=20))
    policy.decoder.compiled = None
    plain = box.run(box.all_of(box.new_engine(policy, prepare=PlainOneToken.of), box.prompts(6), max_new_tokens=20))
    for a, b in zip(fast, plain, strict=True):
        assert a.ids.tolist() == b.ids.tolist()
        assert np.abs(a.logprobs - b.logprobs).max() < 1e-4
