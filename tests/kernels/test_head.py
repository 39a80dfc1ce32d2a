"""Both backends and both paths of the vocabulary head against dense float64 arithmetic."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentmath_kernels.head import Options, Rows, RowTerms, head_logprobs, head_loss  # noqa: E402
from agentmath_kernels.row_operator import NativeRows, Slopes, TorchRows, choose  # noqa: E402

BACKENDS = ("native", "torch")


def draw(seed: int, *shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operator(name: Any) -> Any:
    return choose(name, torch.empty(1, 1))


def dense(logits: Any, targets: Any, temperature: float) -> tuple[Any, Any]:
    """(log-probs, entropies) in float64, on the graph."""
    logp = torch.log_softmax(logits.double() / temperature, -1)
    entropy = -(logp.exp() * logp.masked_fill(logp == -torch.inf, 0)).sum(-1)
    return logp.gather(1, targets[:, None]).squeeze(1), entropy


KINDS = {
    "random": lambda c, v: draw(1, c, v) * 3,
    "peaked": lambda c, v: draw(2, c, v) + 40 * torch.eye(v)[torch.arange(c) % v],
    "all negative": lambda c, v: draw(3, c, v) - 300,
    "ten thousand": lambda c, v: draw(4, c, v).sign() * 1e4 + draw(5, c, v),
    "constant": lambda c, v: torch.full((c, v), -7.0),
    "offset": lambda c, v: draw(6, c, v) + 1e4,
    "minus infinity": lambda c, v: draw(7, c, v).masked_fill(torch.arange(v) % 3 == 1, -math.inf),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocab", [1, 2, 17, 127, 129, 2048, 5003])
def test_a_chunk_is_read_and_written_as_dense_arithmetic_does(backend: str, kind: str, vocab: int):
    rows, temperature = 5, 0.7
    logits = KINDS[kind](rows, vocab).float()
    targets = torch.tensor([0, vocab - 1, vocab // 2, 0, (vocab - 1) // 3 * 3])
    if kind == "minus infinity":
        targets = targets // 3 * 3
    exact = logits.double().requires_grad_()
    logp, entropy = dense(exact, targets, temperature)
    a, b = draw(8, rows), draw(9, rows) * 0.3
    (a.double() @ logp + b.double() @ entropy).backward()
    size = 1 + float(logits[logits.isfinite()].abs().max()) / temperature

    op = operator(backend)
    work = logits.clone()
    figures = op.read(work, targets, temperature, want_entropy=True)
    assert (figures.logprob - logp.detach()).abs().max() <= 5e-7 * size
    assert (figures.entropy - entropy.detach()).abs().max() <= 2e-6 * size
    gradient = op.write(work, targets, temperature, figures, Slopes(a, b))
    assert (gradient - exact.grad).abs().max() <= 2e-6 * size
    assert gradient.sum(1).abs().max() <= 1e-5 * size
    assert ((figures.entropy >= -2e-6 * size) & (figures.entropy <= math.log(vocab) + 2e-6 * size)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_broken_row_stays_in_its_row(backend: str):
    logits = draw(1, 4, 300)
    logits[1, 7], logits[2], logits[3, 299] = math.nan, -math.inf, math.inf
    whole = logits[:1].clone()
    op, targets = operator(backend), torch.tensor([3, 3, 3, 3])
    figures = op.read(logits, targets, 1.0, want_entropy=True)
    assert figures.logprob.isnan().tolist() == [False, True, True, True]
    assert figures.entropy.isnan().tolist() == [False, True, True, True]
    slopes = Slopes(torch.tensor([1.0, 0, 0, 0]), torch.tensor([0.5, 0, 0, 0]))
    gradient = op.write(logits, targets, 1.0, figures, slopes)
    alone = op.read(whole, targets[:1], 1.0, want_entropy=True)
    expected = op.write(whole, targets[:1], 1.0, alone, Slopes(torch.tensor([1.0]), torch.tensor([0.5])))
    assert torch.equal(gradient[:1], expected)
    assert not gradient[1:].any()


def test_a_target_without_a_chance_has_logprob_minus_infinity():
    for backend in BACKENDS:
        logits = torch.tensor([[0.0, -math.inf, 1.0]])
        figures = operator(backend).read(logits, torch.tensor([1]), 1.0, want_entropy=False)
        assert figures.logprob.tolist() == [-math.inf]
        assert figures.entropy.numel() == 0


def test_auto_is_native_in_float32_on_the_cpu_and_torch_elsewhere():
    assert isinstance(choose("auto", torch.empty(1, 1)), NativeRows)
    assert isinstance(choose("auto", torch.empty(1, 1, dtype=torch.float64)), TorchRows)
    assert isinstance(choose("auto", torch.empty(1, 1, device="meta")), TorchRows)


def test_a_backend_that_cannot_run_says_why():
    with pytest.raises(ValueError, match=r"'native' cannot run: it computes in float32, and the logits are torch\.flo"):
        choose("native", torch.empty(1, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="'native' cannot run: it runs on the CPU, and the logits are on meta"):
        choose("native", torch.empty(1, 1, device="meta"))
    with pytest.raises(ValueError, match="'triton' cannot run: it runs on a GPU, and the logits are on cpu"):
        choose("triton", torch.empty(1, 1))
    with pytest.raises(ValueError, match="no loss backend 'cuda': known are auto, native, triton, torch"):
        choose("cuda", torch.empty(1, 1))  # pyright: ignore[reportArgumentType]


def rows_of(hidden: Any, weight: Any, targets: Any, mask: Any = None, **options: Any) -> Rows:
    return Rows.select(hidden, weight, targets, mask, Options(**{"chunk_bytes": 1 << 20, **options}))


def test_logprobs_pass_gradcheck_with_any_upstream_gradient():
    hidden, weight = draw(1, 7, 5, dtype=torch.float64), draw(2, 11, 5, dtype=torch.float64)
    targets = torch.tensor([0, 10, 3, 4, 4, 9, 1])
    mask = torch.tensor([1, 0, 1, 1, 1, 0, 1], dtype=torch.bool)
    rows = rows_of(hidden, weight, targets, mask, temperature=0.7, chunk_bytes=2 * 11 * 8)
    inputs = (hidden.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(lambda h, w: head_logprobs(h, w, rows, want_entropy=True), inputs)
    assert torch.autograd.gradcheck(lambda h, w: head_logprobs(h, w, rows, want_entropy=False)[0], inputs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_recomputing_path_gives_the_gradient_of_the_one_pass_path(backend: Any):
    def run(path: str) -> tuple[Any, Any]:
        hidden, weight = draw(1, 40, 16).requires_grad_(), draw(2, 97, 16).requires_grad_()
        targets, a = torch.arange(40) * 2, draw(3, 40)
        rows = rows_of(hidden, weight, targets, chunk_bytes=7 * 97 * 4, backend=backend, temperature=1.3)
        if path == "recomputing":
            (head_logprobs(hidden, weight, rows, want_entropy=False)[0] * a).sum().backward()
        else:
            terms = lambda span, logp, _: RowTerms(a[span] * logp, a[span], logp.isfinite())  # noqa: E731
            head_loss(hidden, weight, rows, terms, want_entropy=True).loss.backward()
        return hidden.grad, weight.grad

    for one, other in zip(run("recomputing"), run("one pass"), strict=True):
        assert (one - other).norm() <= 1e-6 * other.norm()


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_are_not_finite_have_no_gradient_in_the_recomputing_path(backend: Any):
    hidden, weight = draw(1, 6, 8), draw(2, 30, 8).requires_grad_()
    clean = hidden.clone()
    hidden[2, 3] = math.nan
    targets = torch.arange(6)
    keep = torch.arange(6) != 2

    def gradients(h: Any, mask: Any) -> tuple[Any, Any]:
        weight.grad, h = None, h.clone().requires_grad_()
        logp, entropy = head_logprobs(h, weight, rows_of(h, weight, targets, mask, backend=backend), want_entropy=True)
        (logp[logp.isfinite()].sum() + entropy[entropy.isfinite()].sum()).backward()
        return h.grad, weight.grad

    for broken, whole in zip(gradients(hidden, None), gradients(clean, keep), strict=True):
        assert torch.allclose(broken, whole, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_rows_have_no_logprobs_and_a_gradient_of_zero(backend: Any):
    hidden, weight = draw(1, 3, 4).requires_grad_(), draw(2, 9, 4).requires_grad_()
    rows = rows_of(hidden, weight, torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.bool), backend=backend)
    logp, entropy = head_logprobs(hidden, weight, rows, want_entropy=True)
    assert logp.shape == entropy.shape == (0,)
    (logp.sum() + entropy.sum()).backward()
    assert not hidden.grad.any() and not weight.grad.any()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 99),
    vocab=st.integers(1, 300),
    rows=st.integers(1, 20),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    chunk=st.integers(1, 20),
)
def test_backends_agree_whatever_the_shape_and_the_chunk(
    seed: int, vocab: int, rows: int, temperature: float, chunk: int
):
    targets = torch.randint(vocab, (rows,), generator=torch.Generator().manual_seed(seed))
    found = []
    for backend in BACKENDS:
        hidden, weight = draw(seed, rows, 6).requires_grad_(), draw(seed + 1, vocab, 6).requires_grad_()
        plan = rows_of(hidden, weight, targets, temperature=temperature, chunk_bytes=chunk * vocab * 4, backend=backend)
        logp, entropy = head_logprobs(hidden, weight, plan, want_entropy=True)
        (logp.sum() + 0.3 * entropy.sum()).backward()
        found.append((logp.detach(), entropy.detach(), hidden.grad, weight.grad))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5 / temperature)
