from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from agentmath.engines.sampler import sample  # noqa: E402

HALF = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))


@pytest.mark.parametrize(("uniform", "token"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.74, 1), (0.75, 2), (0.999, 2)])
def test_a_uniform_number_picks_the_token_whose_interval_holds_it(uniform: float, token: int) -> None:
    ids, logprobs = sample(HALF, torch.tensor([uniform]), None)
    assert ids.tolist() == [token]
    assert logprobs.item() == pytest.approx([np.log(0.5), np.log(0.25), np.log(0.25)][token])


def test_logprobs_are_those_of_the_tempered_distribution() -> None:
    # Temperature 0.5 squares the weights: 0.25, 0.0625, 0.0625 of 0.375.
    ids, logprobs = sample(HALF, torch.tensor([0.7]), torch.tensor([0.5]))
    assert ids.tolist() == [1]
    assert logprobs.item() == pytest.approx(np.log(0.0625 / 0.375), abs=1e-6)


def test_temperature_zero_is_greedy_and_reports_temperature_one() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0], [0.0, 2.0, 1.0]])
    ids, logprobs = sample(logits, torch.tensor([0.999, 0.0]), torch.tensor([0.0, 1.0]))
    assert ids.tolist() == [1, 0]
    assert torch.allclose(logprobs[0], torch.log_softmax(logits[0], -1)[1])


@settings(max_examples=60, deadline=None)
@given(
    vocab=st.integers(1, 700),
    uniform=st.floats(0, 1, exclude_max=True, width=32),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([0.1, 1.0, 30.0, 1e4]),
)
def test_an_id_without_weight_is_never_sampled(vocab: int, uniform: float, seed: int, scale: float) -> None:
    logits = torch.randn(1, vocab, generator=torch.Generator().manual_seed(seed)) * scale
    logits[:, ::2] = -torch.inf
    logits[0, vocab // 2] = 0.0
    ids, logprobs = sample(logits, torch.tensor([uniform]), None)
    assert 0 <= ids.item() < vocab
    assert logits[0, ids.item()] > -torch.inf
    assert logprobs.item() == pytest.approx(torch.log_softmax(logits, -1)[0, ids.item()].item(), abs=1e-4)
    assert logprobs.item() > -120


def test_frequencies_follow_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, 0.5] * 100])
    probs = torch.softmax(logits, -1)[0].view(100, 4).sum(0).numpy()
    grid = (torch.arange(20000) + 0.5) / 20000
    ids, _ = sample(logits.expand(20000, -1), grid, None)
    assert np.allclose(np.bincount(ids.numpy() % 4, minlength=4) / 20000, probs, atol=0.006)


def test_a_row_depends_on_no_other_row() -> None:
    logits = torch.randn(6, 300, generator=torch.Generator().manual_seed(1))
    uniforms = torch.rand(6, generator=torch.Generator().manual_seed(2))
    together, _ = sample(logits, uniforms, None)
    alone = torch.cat([sample(logits[i : i + 1], uniforms[i : i + 1], None)[0] for i in range(6)])
    assert together.tolist() == alone.tolist()


def test_a_broken_row_says_so_and_leaves_the_others_alone() -> None:
    logits = torch.zeros(2, 200)
    logits[0, 3] = torch.nan
    ids, logprobs = sample(logits, torch.tensor([0.5, 0.5]), None)
    assert torch.isnan(logprobs[0])
    assert logprobs[1].item() == pytest.approx(-np.log(200), abs=1e-5)
    assert 0 <= int(ids[1]) < 200


def test_top_p_leaves_the_likeliest_tokens_and_log_probs_of_what_is_left() -> None:
    # Probabilities 0.5, 0.3, 0.15, 0.05: 0.7 needs two tokens, 0.5 one, 0.96 all four.
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().repeat(300, 1)
    uniforms = torch.arange(300) / 300
    ids, logprobs = sample(logits, uniforms, None, torch.full((300,), 0.7))
    assert ids.bincount(minlength=4).tolist() == [188, 112, 0, 0]
    assert logprobs[ids == 0].exp().allclose(torch.tensor(0.625))
    for top_p, kept in ((0.5, {0}), (0.96, {0, 1, 2, 3}), (1.0, {0, 1, 2, 3})):
        ids, _ = sample(logits, uniforms, None, torch.full((300,), top_p))
        assert set(ids.tolist()) == kept


def test_a_nucleus_wider_than_the_first_look_is_found_and_rows_keep_their_own() -> None:
    logits = torch.zeros(3, 2048)
    top_p = torch.tensor([0.5, 1.0, 1.0])
    temperatures = torch.tensor([1.0, 1.0, 0.0])
    logits[0] = torch.linspace(1.0, 0.0, 2048)
    uniforms = torch.full((3,), 1 - 1e-6)
    ids, logprobs = sample(logits, uniforms, temperatures, top_p)
    mass = logits[0].softmax(-1).cumsum(-1)
    assert int(ids[0]) == int((mass < 0.5).sum()), "the last token of the nucleus is the last that can be drawn"
    assert int(ids[1]) >= 2045 and int(ids[2]) == 0
    assert logprobs[1].item() == pytest.approx(-np.log(2048), abs=1e-4)
