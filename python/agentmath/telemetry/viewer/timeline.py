"""What engines did over time, one strip for each way of scheduling, as one SVG that needs nothing else.

A strip is a small PNG inside the SVG: a row of pixels for each engine, a column for each bin of time.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _IDLE, _RIGHT, _TOP, _GAP = 980, 16, 120, 16, 66, 46
_DECODE, _PREFILL = (47, 111, 222), (217, 122, 13)
_FAINTEST = 0.25
_SHADES, _MIXTURES = 15, 4  # few enough that a picture stays small
_STYLE = """
  text { font: 12px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; fill: #5d5e59; }
  .title { font-weight: 600; font-size: 15px; fill: #20211f; } .name { font-weight: 600; fill: #20211f; }
  .back { fill: #ffffff; } .strip { fill: #f1f1ec; } .step { stroke: #20211f; stroke-width: 1; }
  .idle { fill: #c9524a; } .decode { fill: #2f6fde; } .prefill { fill: #d97a0d; }
  image { image-rendering: pixelated; }
  @media (prefers-color-scheme: dark) {
    text { fill: #a5a69f; } .title, .name { fill: #ebebe5; } .back { fill: #16171a; } .strip { fill: #26272b; }
    .step { stroke: #ebebe5; }
  }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One way of scheduling; the three tables have a row for each engine and a value for each bin of time."""

    name: str
    note: str
    """What stands behind the name."""
    bin_seconds: float
    decode: Sequence[Sequence[float]]
    """Share of the bin in which the engine decoded."""
    prefill: Sequence[Sequence[float]]
    batch: Sequence[Sequence[float]]
    """Mean sequences in the batch."""
    steps: Sequence[float]
    """Seconds at which a training step ended."""
    idle_by_engine: Sequence[float]
    """Share of time without work, by engine, over more than what is drawn."""


def timeline_svg(strips: Sequence[Strip], *, title: str, seconds: float) -> str:
    """An SVG document of all strips over the same stretch of time, the share of idle time of each engine beside."""
    fullest = max((max(map(max, strip.batch), default=0.0) for strip in strips), default=0.0) or 1.0
    parts: list[str] = []
    top = _TOP
    for strip in strips:
        parts += _drawn(strip, top, seconds, fullest)
        top += _height(strip) + _GAP
    axis = _axis(top - _GAP + 34, seconds)
    legend = (
        f'<rect class="decode" x="{_LEFT}" y="36" width="10" height="10"/><text x="{_LEFT + 15}" y="45">decoding, '
        f'the darker the fuller the batch (most: {fullest:.0f})</text><rect class="prefill" x="{_LEFT + 330}" y="36" '
        f'width="10" height="10"/><text x="{_LEFT + 345}" y="45">prefill</text><line class="step" x1="{_LEFT + 404}" '
        f'x2="{_LEFT + 404}" y1="35" y2="47"/><text x="{_LEFT + 411}" y="45">a training step ends</text>'
        f'<rect class="idle" x="{_WIDTH - _RIGHT - _IDLE}" y="36" width="10" height="10"/>'
        f'<text x="{_WIDTH - _RIGHT - _IDLE + 15}" y="45">idle, 0 to 100 %</text>'
    )
    height = top - _GAP + 46
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>'
        f'<rect class="back" width="{_WIDTH}" height="{height}"/><text class="title" x="{_LEFT}" y="24">'
        f"{escape(title)}</text>{legend}{''.join(parts)}{axis}</svg>\n"
    )


def _height(strip: Strip) -> int:
    return max(24, min(84, 4 * len(strip.decode)))


def _strip_width() -> int:
    return _WIDTH - _LEFT - _RIGHT - _IDLE - 12


def _drawn(strip: Strip, top: int, seconds: float, fullest: float) -> list[str]:
    width, height = _strip_width(), _height(strip)
    bins = min(max(map(len, strip.decode), default=0), int(seconds / strip.bin_seconds) + 1)
    shown = width * bins * strip.bin_seconds / seconds
    picture = base64.b64encode(_png(strip, bins, fullest)).decode("ascii")
    clip = f"strip{top}"
    parts = [
        f'<text x="{_LEFT}" y="{top + 12}"><tspan class="name">{escape(strip.name)}</tspan> '
        f"&#160;{escape(strip.note)}</text>",
        f'<clipPath id="{clip}"><rect x="{_LEFT}" y="{top + 18}" width="{width}" height="{height}"/></clipPath>',
        f'<rect class="strip" x="{_LEFT}" y="{top + 18}" width="{width}" height="{height}"/>',
        f'<image clip-path="url(#{clip})" x="{_LEFT}" y="{top + 18}" width="{shown:.2f}" height="{height}" '
        f'preserveAspectRatio="none" href="data:image/png;base64,{picture}"/>',
    ]
    for at in strip.steps:
        if at <= seconds:
            x = _LEFT + width * at / seconds
            parts.append(f'<line class="step" x1="{x:.2f}" x2="{x:.2f}" y1="{top + 15}" y2="{top + 21 + height}"/>')
    return [*parts, *_idle_bars(strip, top + 18, height)]


def _idle_bars(strip: Strip, top: int, height: int) -> list[str]:
    left = _WIDTH - _RIGHT - _IDLE
    each = height / max(1, len(strip.idle_by_engine))
    bars = [f'<rect class="strip" x="{left}" y="{top}" width="{_IDLE}" height="{height}"/>']
    for engine, share in enumerate(strip.idle_by_engine):
        bars.append(
            f'<rect class="idle" x="{left}" y="{top + engine * each:.2f}" width="{_IDLE * share:.1f}" '
            f'height="{max(0.5, each * 0.8):.2f}"/>'
        )
    return bars


def _rounded(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"


def _axis(y: int, seconds: float) -> str:
    marks = [f'<text x="{_LEFT}" y="{y}">0 s</text>']
    for quarter in (1, 2, 3, 4):
        x = _LEFT + _strip_width() * quarter / 4
        marks.append(f'<text x="{x:.0f}" y="{y}" text-anchor="end">{_rounded(seconds * quarter / 4)} s</text>')
    return "".join(marks)


def _png(strip: Strip, bins: int, fullest: float) -> bytes:
    """RGBA pixels, transparent where an engine was idle (PNG specification, W3C 2003)."""
    lines = bytearray()
    for decode, prefill, batch in zip(strip.decode, strip.prefill, strip.batch, strict=True):
        lines.append(0)  # no filter
        for at in range(bins):
            lines += _pixel(decode[at], prefill[at], batch[at] / fullest) if at < len(decode) else bytes(4)
    header = struct.pack(">IIBBBBB", bins, len(strip.decode), 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(lines), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _pixel(decode: float, prefill: float, fullness: float) -> bytes:
    busy = decode + prefill
    if busy <= 0:
        return bytes(4)
    share = round(_MIXTURES * prefill / busy) / _MIXTURES
    colour = [(1 - share) * d + share * p for d, p in zip(_DECODE, _PREFILL, strict=True)]
    per_busy = min(1.0, fullness / busy)
    strength = min(1.0, busy) * (_FAINTEST + (1 - _FAINTEST) * max(per_busy, prefill / busy))
    return bytes([*(int(c) for c in colour), 255 * round(_SHADES * strength) // _SHADES])
