"""The other losses and corrections through a whole step, against the dense reference sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentmath.algorithms.objectives import correction_of, kl_of, surrogate_of  # noqa: E402
from agentmath.core.errors import TrainingError  # noqa: E402
from agentmath.training.optim import Optimizer  # noqa: E402
from agentmath.training.step import train_step  # noqa: E402
from agentmath_kernels.reference import policy_loss_reference  # noqa: E402

GSPO = {"surrogate": "gspo", "aggregation": "seq-mean-token-mean"}


class Recorder(Optimizer):
    """Keeps the gradient of every update; moves the weights after the first."""

    def __init__(self, inner: Optimizer) -> None:
        self.__dict__.update(inner.__dict__)
        self.gradients: list[dict[str, Any]] = []
        self.before: list[dict[str, Any]] = []

    def step(self, step: int) -> float:
        self.before.append({n: p.detach().clone() for n, p in self._parameters.items()})
        self.gradients.append({n: p.grad.clone() for n, p in self._parameters.items() if p.grad is not None})
        return super().step(step)


def logprobs(policy: Any, s: Any) -> Any:
    """[T - 1] of each next token."""
    ids = torch.tensor(s.ids.astype(np.int64))
    every = torch.log_softmax(policy.forward_hidden(ids, torch.arange(len(ids)), [len(ids)]) @ policy.embed.t(), -1)
    return every[:-1].gather(1, ids[1:, None])[:, 0]


def dense_gradient(policy: Any, samples: Any, weight: Callable[[int], float], inputs: Any, section: Any) -> Any:
    """Each sample alone; inputs(s) gives proximal, reference or neither."""
    loss = torch.zeros((), dtype=torch.float64)
    for s in samples:
        ids = torch.tensor(s.ids.astype(np.int64))
        n, targets = len(ids) - 1, int(s.trainable[1:].sum())
        loss = loss + policy_loss_reference(
            policy.forward_hidden(ids, torch.arange(len(ids)), [len(ids)])[:-1],
            policy.head_weight(),
            ids[1:],
            torch.tensor(s.trainable[1:]),
            advantages=torch.full((n,), s.advantage, dtype=torch.float64),
            behaviour_logprobs=torch.tensor(s.behaviour_logprobs[1:]).double(),
            row_weights=torch.full((n,), weight(targets), dtype=torch.float64),
            sequences=torch.zeros(n, dtype=torch.long),
            num_trainable_tokens=1,
            surrogate=surrogate_of(section),
            correction=correction_of(section),
            kl=kl_of(section),
            **inputs(s),
        )
    for p in policy.parameters():
        p.grad = None
    loss.backward()
    return {n: p.grad for n, p in policy.named_parameters()}


def assert_same(a: dict[str, Any], b: dict[str, Any], tolerance: float = 1e-9) -> None:
    for name, grad in a.items():
        assert float((grad - b[name]).abs().max()) <= tolerance * float(b[name].abs().max()), name


@pytest.mark.parametrize(
    "algorithm",
    [
        GSPO,
        {**GSPO, "clip_low": 0.05, "clip_high": 0.05, "correction": "sequence_tis", "importance_cap": 1.2},
        {"surrogate": "cispo", "clip_high": 0.1},
        {"surrogate": "sapo"},
        {"correction": "icepop", "importance_floor": 0.8, "importance_cap": 1.3},
        {"correction": "geometric_mask", "importance_floor": 0.9, "importance_cap": 1.1},
        {"correction": "sequence_mask", "importance_floor": 0.2, "importance_cap": 3.0},
        {"correction": "none"},
        {"surrogate": "dppo", "clip_low": 0.01, "clip_high": 0.01},
    ],
    ids=str,
)
@pytest.mark.parametrize("tokens", [30, 10_000])
def test_both_updates_of_a_step_equal_the_dense_reference(tiny: Any, algorithm: dict[str, Any], tokens: int) -> None:
    samples = tiny.samples_of_step(3)
    policy, optimizer = tiny.build(dtype="float64")
    recorder = Recorder(optimizer)
    settings = tiny.settings(updates=2, tokens=tokens, **algorithm)
    metrics = train_step(policy, recorder, samples, settings, step=1)
    assert metrics.values["updates"] == 2

    start, _ = tiny.build(dtype="float64")
    is_dppo = settings.algorithm.surrogate == "dppo"
    for number, part in enumerate((samples[:6], samples[6:])):
        moved, _ = tiny.build(dtype="float64")
        moved.load_state_dict(recorder.before[number])
        counted = sum(int(s.trainable[1:].sum()) for s in part)
        by_sequence = settings.algorithm.aggregation == "seq-mean-token-mean"

        def inputs(s: Any, number: int = number) -> dict[str, Any]:
            if is_dppo:
                return {}
            return {"proximal_logprobs": logprobs(start, s).detach()} if number else {"on_policy": True}

        def weight(n: int, counted: int = counted, by_sequence: bool = by_sequence) -> float:
            return 1 / (6 * n) if by_sequence else 1 / counted

        expected = dense_gradient(moved, part, weight, inputs, settings.algorithm)
        assert_same(recorder.gradients[number], expected)


@pytest.mark.parametrize("estimate", ["k2", "k3", "k3+"])
def test_a_kl_penalty_is_measured_from_the_reference_and_reaches_every_sample(tiny: Any, estimate: str) -> None:
    samples = tiny.samples_of_step(1)
    policy, optimizer = tiny.build(dtype="float64")
    other, _ = tiny.build(dtype="float64")
    with torch.no_grad():
        other.up.mul_(0.7)
    recorder = Recorder(optimizer)
    settings = tiny.settings(tokens=40, kl=estimate, kl_coef=0.5)
    metrics = train_step(policy, recorder, samples, settings, step=1, reference=other)
    zero = [s for s in samples if s.advantage == 0]
    assert metrics.values["samples_zero_advantage"] == len(zero) == 4
    assert policy.forwarded_tokens == sum(map(len, samples))
    counted = sum(int(s.trainable[1:].sum()) for s in samples)
    start, _ = tiny.build(dtype="float64")

    def inputs(s: Any) -> dict[str, Any]:
        return {"on_policy": True, "reference_logprobs": logprobs(other, s).detach()}

    assert_same(
        recorder.gradients[0], dense_gradient(start, samples, lambda _: 1 / counted, inputs, settings.algorithm)
    )
    assert metrics.values["kl"] > 0
    assert all(p.grad is None for p in other.parameters())


def test_an_update_without_advantages_still_moves_towards_the_reference(tiny: Any) -> None:
    samples = [replace(s, advantage=0.0) for s in tiny.samples_of_step(1)]
    policy, optimizer = tiny.build(dtype="float64")
    other, _ = tiny.build(dtype="float64")
    with torch.no_grad():
        other.up.mul_(0.5)
    distances = []
    for step in range(1, 6):
        metrics = train_step(
            policy, optimizer, samples, tiny.settings(kl="k3", kl_coef=1.0), step=step, reference=other
        )
        distances.append(metrics.values["kl"])
    assert distances[-1] < distances[0]


def test_an_entropy_bonus_reaches_every_sample_and_equals_the_dense_reference(tiny: Any) -> None:
    samples = tiny.samples_of_step(1)
    policy, optimizer = tiny.build(dtype="float64")
    recorder = Recorder(optimizer)
    settings = tiny.settings(tokens=40, entropy_coef=0.25)
    train_step(policy, recorder, samples, settings, step=1)
    assert policy.forwarded_tokens == sum(map(len, samples))
    counted = sum(int(s.trainable[1:].sum()) for s in samples)
    start, _ = tiny.build(dtype="float64")
    bonus = {"on_policy": True, "entropy_coef": 0.25}
    expected = dense_gradient(start, samples, lambda _: 1 / counted, lambda _: bonus, settings.algorithm)
    assert_same(recorder.gradients[0], expected)


def test_an_update_of_an_entropy_bonus_alone_raises_the_entropy(tiny: Any) -> None:
    samples = [replace(s, advantage=0.0) for s in tiny.samples_of_step(1)]
    policy, optimizer = tiny.build(dtype="float64")
    found = [
        train_step(policy, optimizer, samples, tiny.settings(entropy_coef=1.0), step=step).values["entropy"]
        for step in range(1, 6)
    ]
    assert found == sorted(found)
    assert found[-1] > found[0]


def test_a_penalty_without_a_reference_is_refused(tiny: Any) -> None:
    policy, optimizer = tiny.build()
    with pytest.raises(TrainingError, match="needs a reference policy"):
        train_step(policy, optimizer, tiny.samples_of_step(0), tiny.settings(kl="k3"), step=0)


@pytest.mark.parametrize("algorithm", [GSPO, {"correction": "geometric_mask"}, {"surrogate": "sapo"}], ids=str)
def test_order_and_packing_do_not_matter(tiny: Any, algorithm: dict[str, Any]) -> None:
    samples = tiny.samples_of_step(2)
    found = []
    for tokens, order in ((33, 1), (77, -1)):
        policy, optimizer = tiny.build(dtype="float64")
        recorder = Recorder(optimizer)
        train_step(policy, recorder, samples[::order], tiny.settings(tokens=tokens, **algorithm), step=0)
        found.append(recorder.gradients[0])
    assert_same(*found)


@pytest.mark.parametrize("surrogate", ["ppo_clip", "gspo", "cispo", "sapo", "dppo"])
def test_metrics_are_finite_and_name_what_acted(tiny: Any, surrogate: str) -> None:
    policy, optimizer = tiny.build()
    settings = tiny.settings(updates=2, surrogate=surrogate, correction="icepop")
    values = train_step(policy, optimizer, tiny.samples_of_step(0), settings, step=0).values
    assert all(math.isfinite(v) for v in values.values())
    assert ("importance_masked_fraction" in values) == (surrogate != "dppo")
    assert ("clip_fraction_high" in values) == (surrogate != "sapo")


def test_dppo_needs_no_pass_for_the_proximal_policy(tiny: Any) -> None:
    samples = tiny.samples_of_step(0)
    forwarded = {}
    for surrogate in ("ppo_clip", "dppo"):
        policy, optimizer = tiny.build()
        train_step(policy, optimizer, samples, tiny.settings(updates=2, surrogate=surrogate), step=0)
        forwarded[surrogate] = policy.forwarded_tokens
    assert forwarded["dppo"] == sum(len(s) for s in samples if s.advantage != 0) < forwarded["ppo_clip"]
