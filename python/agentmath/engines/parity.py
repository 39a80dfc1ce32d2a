"""The gate at the end of every weight update: does the engine compute with the weights that the trainer has?

Log-probs of fixed prompts are compared, token by token. An engine whose update went wrong goes on sampling plausible
text and raises no error, so nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentmath.core.errors import EngineError
from agentmath.engines.backend import Floats, Ids

DEFAULT_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05}
"""Largest mean difference of a log-prob that two exact implementations show, with room; see docs/engines.md."""
MAX_PROMPTS, MAX_PROMPT_TOKENS = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the trainer says of the fixed prompts under one version of the weights."""

    version: int
    rows: Sequence[Ids]
    logprobs: Sequence[Floats]
    """Of each row's tokens but the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """How far engine and trainer are apart, in nats."""

    mean: float
    """Of absolute differences, over all tokens of all rows."""
    largest: float


def compare(expected: Expected, found: Sequence[Floats]) -> Parity:
    """Raises EngineError when the engine's numbers are not finite or not of the same shape."""
    theirs, ours = np.concatenate([*found]), np.concatenate([*expected.logprobs])
    if theirs.shape != ours.shape:
        raise EngineError(f"the engine gave {len(theirs)} log-probs of the parity prompts, {len(ours)} were expected")
    differences = np.abs(theirs.astype(np.float64) - ours)
    if not np.isfinite(differences).all():
        raise EngineError(
            f"{int((~np.isfinite(differences)).sum())} of {len(ours)} log-probs of the parity prompts are not finite "
            f"under weights of version {expected.version}; look at the last training step"
        )
    return Parity(mean=float(differences.mean()), largest=float(differences.max()))


def check(label: str, expected: Expected, found: Sequence[Floats], tolerance: float) -> Parity:
    """compare(), and EngineError when the mean is above the tolerance: the engine must not serve."""
    parity = compare(expected, found)
    if parity.mean > tolerance:
        raise EngineError(
            f"{label} does not compute with the trainer's weights of version {expected.version}: log-probs of "
            f"{len(expected.rows)} fixed prompts differ by {parity.mean:.4g} on average and {parity.largest:.4g} at "
            f"most, engine.parity_tolerance is {tolerance:g}. Its weight update went wrong, or its arithmetic is "
            "coarser than the tolerance allows; see docs/engines.md"
        )
    return parity
