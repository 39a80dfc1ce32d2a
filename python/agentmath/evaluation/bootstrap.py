"""Confidence intervals for means over problems: the problems of a set are a draw from all such problems.

Samples of one problem are no independent observations: only whole problems are drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from agentmath.core.types import JSON
from agentmath.evaluation.intervals import wilson

NUM_RESAMPLES = 4000
_Z_975 = 1.959963984540054
_CELLS = 1 << 22
"""Problems drawn at a time: bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over problems and its 95 % interval."""

    value: float
    low: float
    high: float
    num_problems: int

    def as_json(self) -> JSON:
        return asdict(self)


def mean_over_problems(values: Sequence[float], *, seed: int = 0, is_share: bool = True) -> Estimate | None:
    """The mean of one value a problem, with the bootstrap's expanded percentile interval; None for no problem.

    T. Hesterberg, "What Teachers Should Know About the Bootstrap", section on expanded percentiles: the ends lie where
    a t interval with the divisor n - 1 would put them, so that few problems do not give too narrow intervals. Equal
    values in all problems, or a single problem, say nothing of the spread: shares then get Wilson's interval.

    is_share: values lie in [0, 1], and so do the ends.
    """
    data = np.asarray(values, dtype=np.float64)
    if not len(data):
        return None
    mean = float(data.mean())
    if len(data) == 1 or (data == data[0]).all():
        low, high = _without_spread(mean, len(data), is_share)
        return Estimate(value=mean, low=low, high=high, num_problems=len(data))
    tail = expanded_tail(len(data))
    low, high = np.quantile(resampled_means(data, seed), [tail, 1 - tail])
    return Estimate(value=mean, low=float(low), high=float(high), num_problems=len(data))


def resampled_means(data: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    """Means [NUM_RESAMPLES] of as many problems as there are, drawn with replacement."""
    generator = np.random.default_rng(seed)
    block = max(1, min(NUM_RESAMPLES, _CELLS // len(data)))
    sizes = [min(block, NUM_RESAMPLES - begin) for begin in range(0, NUM_RESAMPLES, block)]
    return np.concatenate([data[generator.integers(0, len(data), (size, len(data)))].mean(axis=1) for size in sizes])


def expanded_tail(num_problems: int) -> float:
    """The share of resamples beyond each end: Phi(-sqrt(n / (n - 1)) t), t the 97.5 % quantile of n - 1 degrees."""
    n = num_problems
    return 0.5 * math.erfc(math.sqrt(n / (n - 1)) * t_975(n - 1) / math.sqrt(2))


def t_975(degrees: int) -> float:
    """97.5 % quantile of Student's t: exact for 1 and 2 degrees, else the normal quantile's expansion in 1 / degrees
    (M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 26.7.5), right to 1 % from 3 degrees on."""
    if degrees == 1:
        return math.tan(0.475 * math.pi)
    if degrees == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, v = _Z_975, degrees
    terms = (
        z,
        (z**3 + z) / (4 * v),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4),
    )
    return sum(terms)


def _without_spread(mean: float, num_problems: int, is_share: bool) -> tuple[float, float]:
    if not is_share:
        return mean, mean
    if mean in (0.0, 1.0):
        return wilson(round(mean * num_problems), num_problems)
    low, high = wilson(round(mean * num_problems), num_problems)
    return min(low, mean), max(high, mean)
