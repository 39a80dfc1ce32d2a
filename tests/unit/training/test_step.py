from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentmath.config.algorithm import Aggregation  # noqa: E402
from agentmath.core.errors import TrainingError  # noqa: E402
from agentmath.core.types import Microbatch  # noqa: E402
from agentmath.training.optim import Optimizer  # noqa: E402
from agentmath.training.step import train_step  # noqa: E402
from agentmath.training.update import as_tensors  # noqa: E402
from agentmath_kernels import Clip, Correction  # noqa: E402
from agentmath_kernels.reference import policy_loss_reference  # noqa: E402

FORMULA: dict[str, Any] = {"surrogate": Clip(low=0.2, high=0.28, dual=10.0), "correction": Correction(high=2.0)}
CPU = torch.device("cpu")


class Recorder(Optimizer):
    """Keeps the gradients of every update and moves nothing unless asked to."""

    def __init__(self, inner: Optimizer, *, move: bool = False) -> None:
        self.__dict__.update(inner.__dict__)
        self.move, self.gradients, self.norms = move, [], []

    def step(self, step: int) -> float:
        self.gradients.append({n: p.grad.clone() for n, p in self._parameters.items() if p.grad is not None})
        if self.move:
            self.norms.append(super().step(step))
            return self.norms[-1]
        return 1.0


def gradients(tiny: Any, samples: Any, *, dtype: str = "float64", settings: Any = None, **options: Any) -> list[Any]:
    policy, optimizer = tiny.build(dtype=dtype)
    recorder = Recorder(optimizer)
    train_step(policy, recorder, samples, settings or tiny.settings(**options), step=0)
    return recorder.gradients


def dense_gradient(tiny: Any, samples: Any, weights: list[float], total: int, **options: Any) -> dict[str, Any]:
    """Each sample alone through the float64 reference, summed: no packing, no chunks, no shared code for the shift."""
    policy, _ = tiny.build(dtype="float64")
    loss = torch.zeros((), dtype=torch.float64)
    for s, w in zip(samples, weights, strict=True):
        ids = torch.tensor(s.ids.astype(np.int64))
        hidden = policy.forward_hidden(ids, torch.arange(len(ids)), [len(ids)])[:-1]
        n = len(ids) - 1
        loss = loss + policy_loss_reference(
            hidden,
            policy.head_weight(),
            ids[1:],
            torch.tensor(s.trainable[1:]),
            advantages=torch.full((n,), s.advantage, dtype=torch.float64),
            behaviour_logprobs=torch.tensor(s.behaviour_logprobs[1:]).double(),
            row_weights=torch.full((n,), w, dtype=torch.float64),
            num_trainable_tokens=total,
            on_policy=True,
            **{**FORMULA, **options},
        )
    loss.backward()
    return {n: p.grad for n, p in policy.named_parameters()}


def assert_same(a: dict[str, Any], b: dict[str, Any], tolerance: float = 1e-11) -> None:
    for name, grad in a.items():
        assert float((grad - b[name]).abs().max()) <= tolerance * float(b[name].abs().max()), name


def counted(samples: Any) -> int:
    return sum(int(s.trainable[1:].sum()) for s in samples)


def test_targets_are_shifted_within_each_sample_by_hand(tiny: Any) -> None:
    a, b = tiny.sample(1, key="0/0", length=3), tiny.sample(2, key="0/1", length=2)
    a = replace(a, ids=np.array([1, 2, 3], dtype=np.int32), trainable=np.array([False, False, True]))
    a.behaviour_logprobs[2] = -0.5
    b = replace(b, ids=np.array([4, 5], dtype=np.int32), trainable=np.array([True, True]))
    batch = as_tensors(Microbatch(samples=(a, b), num_tokens=5, num_trainable_tokens=2), 0, CPU)
    assert batch.ids.tolist() == [1, 2, 3, 4, 5]
    assert batch.positions.tolist() == [0, 1, 2, 0, 1]
    assert batch.targets.tolist() == [3, 5]
    assert batch.ids[batch.context].tolist() == [2, 4]
    # The token 4 begins its sample: nothing precedes it there, although it is marked trainable.
    assert batch.behaviour_logprobs[0] == -0.5


@pytest.mark.parametrize("tokens", [1, 40, 10_000])
def test_gradient_equals_the_dense_reference_for_any_packing(tiny: Any, tokens: int) -> None:
    samples = tiny.samples_of_step(0)
    (got,) = gradients(tiny, samples, tokens=tokens)
    assert_same(got, dense_gradient(tiny, samples, [1.0] * len(samples), counted(samples)))


@pytest.mark.parametrize("mode", get_args(Aggregation))
def test_every_aggregation_mode_equals_its_formula(tiny: Any, mode: str) -> None:
    samples = tiny.samples_of_step(1)
    n = [int(s.trainable[1:].sum()) for s in samples]
    prompt = [s.key.split("/")[0] for s in samples]
    of_prompt = [sum(m for m, q in zip(n, prompt, strict=True) if q == p) for p in prompt]
    per_token = {
        "token-mean": [1 / sum(n)] * len(n),
        "prompt-token-mean": [1 / (4 * m) for m in of_prompt],
        "seq-mean-token-mean": [1 / (12 * m) for m in n],
        "seq-mean-token-sum": [1 / 12] * len(n),
        "seq-mean-token-sum-norm": [1 / (12 * 30)] * len(n),
    }[mode]
    (got,) = gradients(tiny, samples, tokens=50, aggregation=mode)
    assert_same(got, dense_gradient(tiny, samples, per_token, 1))


def test_order_and_split_of_samples_do_not_matter(tiny: Any) -> None:
    samples = tiny.samples_of_step(2)
    (a,) = gradients(tiny, samples, tokens=33)
    (b,) = gradients(tiny, samples[::-1], tokens=77)
    assert_same(a, b)


def test_zero_advantage_samples_are_not_forwarded_but_are_counted(tiny: Any) -> None:
    samples = tiny.samples_of_step(0)
    policy, optimizer = tiny.build()
    metrics = train_step(policy, optimizer, samples, tiny.settings(), step=0)
    zero = [s for s in samples if s.advantage == 0]
    assert len(zero) == 4
    assert metrics.values["samples_zero_advantage"] == 4
    assert metrics.values["trainable_tokens"] == counted(samples)
    assert policy.forwarded_tokens == metrics.values["tokens"] == sum(len(s) for s in samples if s.advantage != 0)
    # A hair's breadth of advantage must not change the size of the step.
    nearly = [replace(s, advantage=s.advantage or 1e-13) for s in samples]
    assert_same(gradients(tiny, samples)[0], gradients(tiny, nearly)[0], 1e-9)


def test_nothing_to_learn_makes_no_update_and_has_no_means(tiny: Any) -> None:
    for samples in ([], [replace(s, advantage=0.0) for s in tiny.samples_of_step(0)]):
        policy, optimizer = tiny.build()
        before = {n: p.detach().clone() for n, p in policy.named_parameters()}
        metrics = train_step(policy, optimizer, samples, tiny.settings(), step=0)
        assert metrics.skipped == "no sample has an advantage other than 0"
        assert not {"loss", "grad_norm", "entropy", "mismatch_mean"} & set(metrics.values)
        assert all(torch.equal(p, before[n]) for n, p in policy.named_parameters())


def test_the_reported_figures_by_hand(tiny: Any) -> None:
    samples = [replace(s, advantage=1.0) for s in tiny.samples_of_step(0)]
    policy, optimizer = tiny.build(dtype="float64")
    logp, entropy, behaviour = [], [], []
    with torch.no_grad():
        for s in samples:
            ids = torch.tensor(s.ids.astype(np.int64))
            every = torch.log_softmax(
                policy.forward_hidden(ids, torch.arange(len(ids)), [len(ids)]) @ policy.embed.t(), -1
            )
            mask = torch.tensor(s.trainable[1:])
            logp.append(every[:-1].gather(1, ids[1:, None])[:, 0][mask])
            entropy.append(-(every.exp() * every).sum(-1)[:-1][mask])
            behaviour.append(torch.tensor(s.behaviour_logprobs[1:])[mask])
    d = torch.cat(logp) - torch.cat(behaviour)
    weight = d.exp().clamp(max=2.0)
    values = train_step(policy, optimizer, samples, tiny.settings(), step=0, version=5).values
    assert values["loss"] == pytest.approx(float(-weight.mean()))
    assert values["entropy"] == pytest.approx(float(torch.cat(entropy).mean()))
    assert values["mismatch_mean"] == pytest.approx(float(d.abs().mean()))
    assert values["mismatch_max"] == pytest.approx(float(d.abs().max()))
    assert values["mismatch_k3"] == pytest.approx(float((d.exp() - 1 - d).mean()))
    assert values["importance_truncated_fraction"] == pytest.approx(float((d.exp() > 2).double().mean()))
    assert values["clip_fraction_low"] == values["clip_fraction_high"] == 0.0
    assert (values["staleness_mean"], values["staleness_max"]) == (2.0, 2.0)
    assert (values["samples"], values["updates"], values["nonfinite_rows"]) == (12.0, 1.0, 0.0)
    assert values["learning_rate"] == pytest.approx(0.01)


def test_later_updates_are_measured_against_the_policy_before_the_first(tiny: Any) -> None:
    samples = tiny.samples_of_step(3)
    policy, optimizer = tiny.build(dtype="float64")
    recorder = Recorder(optimizer, move=True)
    metrics = train_step(policy, recorder, samples, tiny.settings(updates=2), step=0)
    assert metrics.values["updates"] == 2
    assert len(recorder.gradients) == 2

    # The same by hand: proximal log-probs of the second half under the first weights, then one update on the first.
    first, second = samples[:6], samples[6:]
    proximal_policy, _ = tiny.build(dtype="float64")
    moved, plain = tiny.build(dtype="float64")
    train_step(moved, plain, first, tiny.settings(), step=0)
    loss = torch.zeros((), dtype=torch.float64)
    for s in second:
        ids = torch.tensor(s.ids.astype(np.int64))
        n, row = len(ids) - 1, (ids, torch.arange(len(ids)), [len(ids)])
        with torch.no_grad():
            old = torch.log_softmax(proximal_policy.forward_hidden(*row)[:-1] @ proximal_policy.embed.t(), -1)
        loss = loss + policy_loss_reference(
            moved.forward_hidden(*row)[:-1],
            moved.head_weight(),
            ids[1:],
            torch.tensor(s.trainable[1:]),
            advantages=torch.full((n,), s.advantage, dtype=torch.float64),
            behaviour_logprobs=torch.tensor(s.behaviour_logprobs[1:]).double(),
            proximal_logprobs=old.gather(1, ids[1:, None])[:, 0],
            num_trainable_tokens=counted(second),
            **FORMULA,
        )
    for p in moved.parameters():
        p.grad = None
    loss.backward()
    assert_same(recorder.gradients[1], {n: p.grad for n, p in moved.named_parameters()}, 1e-9)


def test_clipping_acts_once_there_are_several_updates(tiny: Any) -> None:
    samples = [
        replace(s, advantage=1.0 if s.advantage >= 0 else -1.0) for s in tiny.samples_of_step(4, prompts=1, group=12)
    ]
    samples = [replace(s, key=f"{i}/0") for i, s in enumerate(samples)]
    policy, optimizer = tiny.build()
    metrics = train_step(policy, optimizer, samples, tiny.settings(updates=6, clip_low=0.001, clip_high=0.001), step=3)
    assert metrics.values["clip_fraction_low"] + metrics.values["clip_fraction_high"] > 0.1


def poisoned(tiny: Any, *, nonfinite: str, folder: Path | None, updates: int = 1) -> tuple[Any, Any, Any, Any]:
    policy, optimizer = tiny.build()
    samples = [replace(s, ids=np.where(s.ids == 5, 6, s.ids)) for s in tiny.samples_of_step(0)]
    samples[1].ids[-2] = 5
    policy.poison_at_token = 5
    settings = tiny.settings(updates=updates, tokens=60)
    training = settings.training.model_copy(update={"nonfinite": nonfinite})
    return policy, optimizer, samples, replace(settings, training=training, inspection_folder=folder)


def test_a_nonfinite_update_is_raised_and_its_batch_kept(tiny: Any, tmp_path: Path) -> None:
    policy, optimizer, samples, settings = poisoned(tiny, nonfinite="raise", folder=tmp_path / "inspect")
    before = {n: p.detach().clone() for n, p in policy.named_parameters()}
    with pytest.raises(
        TrainingError, match=r"step-7-update-0: no update .* 1 of \d+ rows .*nonfinite-step-7-update-0.npz"
    ):
        train_step(policy, optimizer, samples, settings, step=7)
    assert all(torch.equal(p, before[n]) for n, p in policy.named_parameters())
    kept = np.load(tmp_path / "inspect" / "nonfinite-step-7-update-0.npz")
    at = list(kept["keys"]).index("0/1")
    start = int(kept["lengths"][:at].sum())
    assert kept["ids"][start : start + kept["lengths"][at]].tolist() == samples[1].ids.tolist()
    assert kept["advantages"][at] == samples[1].advantage


def test_a_nonfinite_update_is_skipped_counted_and_training_goes_on(tiny: Any, tmp_path: Path) -> None:
    policy, optimizer, samples, settings = poisoned(tiny, nonfinite="skip", folder=tmp_path)
    before = {n: p.detach().clone() for n, p in policy.named_parameters()}
    metrics = train_step(policy, optimizer, samples, settings, step=0)
    assert metrics.skipped is not None
    assert (metrics.values["nonfinite_updates"], metrics.values["nonfinite_rows"], metrics.values["updates"]) == (
        1,
        1,
        0,
    )
    assert "loss" not in metrics.values
    assert all(torch.equal(p, before[n]) for n, p in policy.named_parameters())
    assert all(p.grad is None for p in policy.parameters())
    policy.poison_at_token = None
    after = train_step(policy, optimizer, samples, settings, step=1)
    assert after.skipped is None
    assert all(math.isfinite(v) for v in after.values.values())


def test_a_batch_that_cannot_be_kept_does_not_hide_the_reason(tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    policy, optimizer, samples, settings = poisoned(tiny, nonfinite="raise", folder=tmp_path / "file")
    with pytest.raises(TrainingError, match=r"rows that are not finite .* could not be kept"):
        train_step(policy, optimizer, samples, settings, step=0)


def test_one_bad_update_of_two_leaves_the_other(tiny: Any) -> None:
    policy, optimizer, samples, settings = poisoned(tiny, nonfinite="skip", folder=None, updates=2)
    metrics = train_step(policy, optimizer, samples, settings, step=0)
    assert metrics.skipped is None
    assert (metrics.values["updates"], metrics.values["nonfinite_updates"]) == (1, 1)
    assert math.isfinite(metrics.values["loss"])


def test_an_infinite_gradient_with_a_finite_loss_is_caught(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, optimizer = tiny.build()
    policy.down.register_hook(lambda grad: torch.full_like(grad, math.inf))
    with pytest.raises(TrainingError, match=r"the gradient's norm is (inf|nan)"):
        train_step(policy, optimizer, tiny.samples_of_step(0), tiny.settings(), step=0)


def test_repeating_a_step_repeats_every_bit(tiny: Any) -> None:
    results = []
    for _ in range(2):
        policy, optimizer = tiny.build()
        tiny.train(policy, optimizer, range(3), updates=2)
        results.append(policy.state_dict())
    assert all(torch.equal(results[0][n], results[1][n]) for n in results[0])


def test_a_bfloat16_policy_trains(tiny: Any) -> None:
    policy, optimizer = tiny.build(dtype="bfloat16")
    before = policy.up.detach().clone()
    metrics = train_step(policy, optimizer, tiny.samples_of_step(0), tiny.settings(), step=2)
    assert metrics.skipped is None
    assert not torch.equal(policy.up, before)


def test_training_raises_the_probability_of_what_was_good(tiny: Any) -> None:
    policy, optimizer = tiny.build(total_steps=60)
    good, bad = tiny.sample(1, key="0/0", advantage=1.0), tiny.sample(2, key="0/1", advantage=-1.0)

    def logprob(s: Any) -> float:
        ids = torch.tensor(s.ids.astype(np.int64))
        with torch.no_grad():
            every = torch.log_softmax(policy.forward_hidden(ids, torch.arange(12), [12]) @ policy.embed.t(), -1)
        return float(every[:-1].gather(1, ids[1:, None])[:, 0][torch.tensor(s.trainable[1:])].mean())

    start = logprob(good) - logprob(bad)
    for step in range(20):
        train_step(policy, optimizer, [good, bad], tiny.settings(), step=step)
    assert logprob(good) - logprob(bad) > start + 0.5
