"""Confidence intervals for shares and means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

_Z_95 = 1.959963984540054


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95 % Wilson score interval of a share (E. B. Wilson, "Probable inference, the law of succession, and statistical
    inference", 1927). Without trials nothing is known: (0, 1)."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z_95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z_95 / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval by Student's t ("The probable error of a mean", 1908); of one value the interval is
    the whole line."""
    count, mean = len(values), statistics.fmean(values)
    if count < 2:
        return mean, -math.inf, math.inf
    half = _student_95(count - 1) * statistics.stdev(values) / math.sqrt(count)
    return mean, mean - half, mean + half


def _student_95(freedom: int) -> float:
    """Quantile 0.975 of Student's t: tabled, then Cornish and Fisher's expansion in 1 / freedom, right to 3 digits."""
    tabled = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
    if freedom <= len(tabled):
        return tabled[freedom - 1]
    z = _Z_95
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
