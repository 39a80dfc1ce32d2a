"""A micro-batch as tensors: a common beginning is computed once and changes no number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from agentmath.config.model import ModelSection
from agentmath.core.types import Microbatch, TrainingSample
from agentmath.training.packing import pack
from agentmath.training.policy import Policy, load_policy
from agentmath.training.update import as_tensors, hidden_of_targets


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.set_num_threads(1)
    section = ModelSection(
        hidden_size=32, num_layers=2, num_heads=2, num_key_value_heads=1, ffn_size=48, vocab_size=320
    )
    return load_policy(section, name="p", seed=0, corpus=["What is 1 + 2?"] * 3)


def sample(prompt: list[int], answer: list[int], key: str, prefix_key: str) -> TrainingSample:
    n = len(prompt) + len(answer)
    return TrainingSample(
        policy="p",
        ids=np.array([*prompt, *answer], dtype=np.int32),
        trainable=np.arange(n) >= len(prompt),
        behaviour_logprobs=np.linspace(-2, -1, n).astype(np.float32),
        versions=np.zeros(n, dtype=np.int32),
        advantage=1.0,
        key=key,
        prefix_key=prefix_key,
        prefix_tokens=len(prompt) if prefix_key else 0,
    )


GROUPS = [
    sample([5, 6, 7, 8], [9, 10, 11], "0/0", "0"),
    sample([5, 6, 7, 8], [12], "0/1", "0"),
    sample([20, 21], [22, 23, 24, 25], "1/0", "1"),
    sample([30, 31, 32], [33, 34], "2/0", ""),
    sample([20, 21], [26], "1/1", "1"),
    sample([40], [41, 42], "3/0", "3"),
]


def batch_of(samples: list[TrainingSample]) -> Microbatch:
    return Microbatch(samples=tuple(samples), num_tokens=0, num_trainable_tokens=0)


def test_a_common_beginning_lies_there_once():
    batch = as_tensors(batch_of(GROUPS), 0, torch.device("cpu"))
    assert batch.ids.tolist()[:4] == [5, 6, 7, 8]
    assert batch.lengths == [4, 2, 5, 3, 3, 1, 4, 1]
    assert batch.parents == [-1, -1, -1, -1, 0, 0, 1, 1]
    assert len(batch.ids) == sum(batch.lengths) == 23
    assert batch.positions.tolist()[14:18] == [4, 5, 6, 4]
    assert batch.targets.tolist() == [9, 10, 11, 12, 22, 23, 24, 25, 33, 34, 26, 41, 42]
    assert batch.sample_of_target.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 4, 5, 5]
    assert batch.ids[batch.context].tolist() == [8, 9, 10, 8, 21, 22, 23, 24, 32, 33, 21, 40, 41]
    assert batch.spread([0, 1, 2, 3, 4, 5]).tolist() == batch.sample_of_target.tolist()


def test_sharing_changes_neither_hidden_states_nor_gradients(policy: Policy):
    apart = [replace(s, prefix_key="", prefix_tokens=0) for s in GROUPS]
    results = []
    for samples in (GROUPS, apart):
        batch = as_tensors(batch_of(samples), 0, torch.device("cpu"))
        hidden = hidden_of_targets(policy, batch)
        weight = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(0))
        parameters = [p for _, p in policy.named_parameters()]
        results.append((hidden, torch.autograd.grad((hidden * weight).sum(), parameters, allow_unused=True)))
    (shared, shared_grads), (whole, whole_grads) = results
    torch.testing.assert_close(shared, whole, rtol=1e-5, atol=1e-6)
    assert any(g is not None for g in shared_grads)
    for a, b in zip(shared_grads, whole_grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("budget", [1, 4, 8, 12, 20, 100])
def test_packing_counts_a_common_beginning_once(budget: int):
    packed = pack(GROUPS, budget)
    assert sorted(s.key for m in packed for s in m.samples) == sorted(s.key for s in GROUPS)
    for microbatch in packed:
        batch = as_tensors(microbatch, 0, torch.device("cpu"))
        assert microbatch.num_tokens == len(batch.ids)
        assert microbatch.num_tokens <= budget or len(microbatch.samples) == 1
    if budget == 100:
        assert len(packed) == 1
