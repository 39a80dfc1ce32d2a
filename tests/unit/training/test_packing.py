from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.types import TrainingSample
from agentmath.training.packing import pack, split_updates


def sample(length: int, key: str = "") -> TrainingSample:
    return TrainingSample(
        policy="main",
        ids=np.zeros(length, dtype=np.int32),
        trainable=np.ones(length, dtype=np.bool_),
        behaviour_logprobs=np.zeros(length, dtype=np.float32),
        versions=np.zeros(length, dtype=np.int32),
        advantage=1.0,
        key=key,
    )


LENGTHS = st.lists(st.integers(1, 60), max_size=60)


@given(LENGTHS, st.integers(1, 64))
def test_every_sample_is_in_exactly_one_microbatch(lengths: list[int], budget: int) -> None:
    samples = [sample(n, str(i)) for i, n in enumerate(lengths)]
    packed = pack(samples, budget)
    assert sorted(int(s.key) for m in packed for s in m.samples) == list(range(len(samples)))
    for m in packed:
        assert m.num_tokens == sum(len(s) for s in m.samples)
        assert m.num_trainable_tokens == m.num_tokens - len(m.samples)
        assert m.num_tokens <= budget or len(m.samples) == 1


@given(LENGTHS, st.integers(1, 64))
def test_no_two_microbatches_could_have_been_one_beyond_the_bound(lengths: list[int], budget: int) -> None:
    packed = pack([sample(n) for n in lengths], budget)
    lower = max(-(-sum(n for n in lengths if n <= budget) // budget) + sum(n > budget for n in lengths), 0)
    assert len(packed) <= 11 / 9 * 2 * max(lower, 1)
    light = [m for m in packed if m.num_tokens <= budget / 2]
    assert len(light) <= 1


@given(LENGTHS, st.integers(1, 64))
def test_packing_is_a_function_of_its_arguments(lengths: list[int], budget: int) -> None:
    samples = [sample(n, str(i)) for i, n in enumerate(lengths)]
    first = [[s.key for s in m.samples] for m in pack(samples, budget)]
    assert first == [[s.key for s in m.samples] for m in pack(list(samples), budget)]


def test_a_sample_longer_than_the_budget_goes_alone() -> None:
    packed = pack([sample(3), sample(50), sample(4)], 10)
    assert sorted([len(s) for s in m.samples] for m in packed) == [[3, 4], [50]]


def test_the_tightest_fit_wins_by_hand() -> None:
    # 7 and 6 open bins with 3 and 4 left; 4 goes to the second, 3 to the first.
    packed = pack([sample(n) for n in (4, 7, 3, 6)], 10)
    assert [[len(s) for s in m.samples] for m in packed] == [[7, 3], [4, 6]]


def test_nothing_packs_to_nothing() -> None:
    assert pack([], 10) == []


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 6))
def test_updates_hold_every_sample_once_and_keep_prompts_together(ordinals: list[int], updates: int) -> None:
    samples = [sample(3, f"{ordinal}/{i}") for i, ordinal in enumerate(ordinals)]
    parts = split_updates(samples, updates)
    assert sorted(s.key for p in parts for s in p) == sorted(s.key for s in samples)
    assert len(parts) == min(updates, len(set(ordinals)))
    homes = [{s.key.split("/")[0] for s in p} for p in parts]
    assert all(homes)
    assert sum(map(len, homes)) == len(set(ordinals))


@pytest.mark.parametrize("updates", [1, 2, 3])
def test_prompts_are_dealt_out_evenly_in_order(updates: int) -> None:
    parts = split_updates([sample(2, f"{o}/0") for o in range(6)], updates)
    assert [len(p) for p in parts] == [6 // updates] * updates
    assert [s.key for p in parts for s in p] == [f"{o}/0" for o in range(6)]
