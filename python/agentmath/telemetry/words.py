"""Numbers and foreign text as a person reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable

_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def number(value: float) -> str:
    """Three significant digits; 8,120 for large numbers, 3.0e-07 for small ones."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}" if size < 1e9 else f"{value:.2e}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.001 or value == 0:
        return f"{value:.3f}" if size < 1 else f"{value:.2f}"
    return f"{value:.1e}"


def duration(seconds: float) -> str:
    """0:07, 12:03, 1:02:03."""
    whole = max(round(seconds), 0)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def sparkline(shares: Iterable[float]) -> str:
    """One block per share between 0 and 1; a blank for what is no number."""
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(min(max(s, 0.0), 1.0) * top)] if math.isfinite(s) else " " for s in shares)


def printable(text: str) -> str:
    """Text that cannot steer a terminal: everything but line ends and printable signs is written out as an escape."""
    signs = text.replace("\t", "    ")
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in signs)
