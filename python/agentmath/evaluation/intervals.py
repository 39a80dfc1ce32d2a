"""Confidence intervals for shares."""

from __future__ import annotations

import math

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
