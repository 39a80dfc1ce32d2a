"""The picture of engines over time."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

from agentmath.telemetry.viewer.timeline import Strip, timeline_svg


def strip(**changes: object) -> Strip:
    values: dict[str, object] = {
        "name": "batch/ours",
        "note": "1x",
        "bin_seconds": 1.0,
        "decode": [[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]],
        "prefill": [[0.0, 0.0, 0.5], [1.0, 0.0, 0.0]],
        "batch": [[4.0, 0.0, 2.0], [1.0, 0.0, 0.0]],
        "steps": [1.0, 2.5, 99.0],
        "idle_by_engine": [0.25, 0.75],
    }
    return Strip(**{**values, **changes})  # type: ignore[arg-type]


def pixels(text: str) -> list[list[tuple[int, int, int, int]]]:
    """Rows of RGBA in the first strip's picture."""
    found = re.search(r"base64,([^\"]+)", text)
    assert found is not None
    data = base64.b64decode(found[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    at, body = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + content)
        body += content if kind == b"IDAT" else b""
        at += 12 + size
    lines = zlib.decompress(body)
    assert len(lines) == height * (1 + 4 * width)
    rows = [lines[r * (1 + 4 * width) + 1 : (r + 1) * (1 + 4 * width)] for r in range(height)]
    return [[tuple(row[4 * x : 4 * x + 4]) for x in range(width)] for row in rows]  # type: ignore[misc]


def test_idle_is_clear_full_batches_are_dark_and_prefill_has_a_colour_of_its_own() -> None:
    first, second = pixels(timeline_svg([strip()], title="t", seconds=3.0))
    blue, orange = (47, 111, 222), (217, 122, 13)
    assert first[0] == (*blue, 255)
    assert first[1] == (0, 0, 0, 0)
    assert first[2][:3] == tuple((b + o) // 2 for b, o in zip(blue, orange, strict=True))
    assert second[0] == (*orange, 255)
    assert second[1:] == [(0, 0, 0, 0)] * 2


def test_steps_are_marked_where_they_ended_if_that_is_shown() -> None:
    text = timeline_svg([strip()], title="t", seconds=3.0)
    lines = [n for n in ElementTree.fromstring(text).iter() if n.tag.endswith("line") and n.get("class") == "step"]
    assert len(lines) == 1 + 2  # one in the legend
    xs = [float(n.get("x1", "")) for n in lines[1:]]
    assert (xs[1] - 16) / (xs[0] - 16) == 2.5


def test_idle_bars_are_as_long_as_the_share() -> None:
    text = timeline_svg([strip()], title="t", seconds=3.0)
    bars = [n for n in ElementTree.fromstring(text).iter() if n.get("class") == "idle" and n.get("y") != "36"]
    assert [float(n.get("width", "")) for n in bars] == [30.0, 90.0]


def test_names_cannot_break_out_of_the_document() -> None:
    text = timeline_svg([strip(name="<b>&", note='"<')], title="</svg>", seconds=3.0)
    assert "<b>" not in text
    ElementTree.fromstring(text)
    assert text.isascii()


def test_engines_that_never_worked_are_drawn_as_idle() -> None:
    nothing = [[0.0, 0.0]]
    quiet = strip(decode=nothing, prefill=nothing, batch=nothing, idle_by_engine=[1.0], steps=[])
    assert pixels(timeline_svg([quiet], title="t", seconds=2.0)) == [[(0, 0, 0, 0)] * 2]
