"""Whole samples into micro-batches of bounded length, without padding."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np

from agentmath.core.types import Microbatch, TrainingSample
from agentmath.training.samples import num_targets, prompt_of


def pack(samples: Sequence[TrainingSample], tokens_per_microbatch: int) -> list[Microbatch]:
    """Best-fit decreasing: every sample exactly once, none cut; depends on nothing but the arguments.

    Samples with a common beginning stay together as far as they fit, and their beginning counts once. A sample longer
    than tokens_per_microbatch gets a micro-batch of its own. At most 11/9 of the fewest possible micro-batches, and
    one, are used (Johnson et al., Worst-case performance bounds for simple one-dimensional packing algorithms). The
    gradient never depends on the packing.
    """
    units = _units(samples, tokens_per_microbatch)
    sizes = [num_forward_tokens([samples[i] for i in unit]) for unit in units]
    bins: list[list[int]] = []
    # (room left, bin), ascending: the first entry with enough room is the tightest fit.
    room: list[tuple[int, int]] = []
    for number in sorted(range(len(units)), key=lambda u: (-sizes[u], u)):
        at = bisect_left(room, (sizes[number], -1))
        if at < len(room):
            left, chosen = room.pop(at)
            bins[chosen] += units[number]
        else:
            left, chosen = tokens_per_microbatch, len(bins)
            bins.append(list(units[number]))
        if left - sizes[number] > 0:
            entry = (left - sizes[number], chosen)
            room.insert(bisect_left(room, entry), entry)
    return [_microbatch([samples[i] for i in sorted(members)]) for members in bins]


def shared_prefixes(samples: Sequence[TrainingSample]) -> dict[str, int]:
    """Length of each beginning that at least two of the samples have in common, by prefix_key."""
    lengths: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for sample in samples:
        if sample.prefix_key and 0 < sample.prefix_tokens < len(sample):
            counts[sample.prefix_key] += 1
            known = lengths.setdefault(sample.prefix_key, sample.prefix_tokens)
            assert known == sample.prefix_tokens, (
                f"prefix {sample.prefix_key!r} has {known} and {sample.prefix_tokens} tokens"
            )
    return {key: lengths[key] for key, count in counts.items() if count > 1}


def num_forward_tokens(samples: Sequence[TrainingSample]) -> int:
    """Tokens that a micro-batch of samples computes: all of theirs, a common beginning once."""
    shared = shared_prefixes(samples)
    own = sum(len(s) - shared.get(s.prefix_key, 0) for s in samples)
    return own + sum(shared.values())


def _units(samples: Sequence[TrainingSample], tokens_per_microbatch: int) -> list[list[int]]:
    """Indices that go into one micro-batch together: samples of one beginning, as many as fit."""
    units: list[list[int]] = []
    open_unit: dict[str, tuple[list[int], int]] = {}
    for index, sample in enumerate(samples):
        unit, size = open_unit.get(sample.prefix_key, ([], 0)) if sample.prefix_key else ([], 0)
        grown = size + len(sample) - sample.prefix_tokens if unit else len(sample)
        if unit and grown <= tokens_per_microbatch:
            unit.append(index)
        else:
            unit, grown = [index], len(sample)
            units.append(unit)
        open_unit[sample.prefix_key] = (unit, grown)
    return units


def split_updates(samples: Sequence[TrainingSample], num_updates: int) -> list[list[TrainingSample]]:
    """Parts for several updates of one step, in order; samples of one prompt stay together, so that the advantages of
    an update still sum to about 0. Fewer parts than asked for when there are fewer prompts; never an empty one.
    """
    by_prompt: dict[str, list[TrainingSample]] = {}
    for sample in samples:
        by_prompt.setdefault(prompt_of(sample), []).append(sample)
    prompts = list(by_prompt.values())
    parts = np.array_split(np.arange(len(prompts)), num_updates)
    return [[s for i in part for s in prompts[i]] for part in parts if part.size]


def _microbatch(samples: list[TrainingSample]) -> Microbatch:
    return Microbatch(
        samples=tuple(samples),
        num_tokens=num_forward_tokens(samples),
        num_trainable_tokens=sum(num_targets(s) for s in samples),
    )
