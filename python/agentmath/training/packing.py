"""Whole samples into micro-batches of bounded length, without padding."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from agentmath.core.types import Microbatch, TrainingSample
from agentmath.training.samples import num_targets, prompt_of


def pack(samples: Sequence[TrainingSample], tokens_per_microbatch: int) -> list[Microbatch]:
    """Best-fit decreasing: every sample exactly once, none cut; depends on nothing but the arguments.

    A sample longer than tokens_per_microbatch gets a micro-batch of its own. At most 11/9 of the fewest possible
    micro-batches, and one, are used (Johnson et al., Worst-case performance bounds for simple one-dimensional packing
    algorithms). The gradient never depends on the packing.
    """
    bins: list[list[int]] = []
    # (room left, bin), ascending: the first entry with enough room is the tightest fit.
    room: list[tuple[int, int]] = []
    for index in sorted(range(len(samples)), key=lambda i: (-len(samples[i]), i)):
        length = len(samples[index])
        at = bisect_left(room, (length, -1))
        if at < len(room):
            left, chosen = room.pop(at)
            bins[chosen].append(index)
        else:
            left, chosen = tokens_per_microbatch, len(bins)
            bins.append([index])
        if left - length > 0:
            entry = (left - length, chosen)
            room.insert(bisect_left(room, entry), entry)
    return [_microbatch([samples[i] for i in sorted(members)]) for members in bins]


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
        num_tokens=sum(len(s) for s in samples),
        num_trainable_tokens=sum(num_targets(s) for s in samples),
    )
