from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

from agentmath.core.errors import ConfigError
from agentmath.telemetry.viewer.picture import HEIGHT, WIDTH, curves_svg, write_picture

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_shows_both_curves_and_their_last_values(tmp_path: Path) -> None:
    lines = ['{"kind": "sft", "step": 9, "accuracy": 0.1}']
    lines += [f'{{"kind": "rl", "step": {s}, "accuracy": {s / 4}, "tool_use": 0.5}}' for s in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "curves.svg"
    assert write_picture(tmp_path, out) == out
    root = ElementTree.parse(out).getroot()
    assert len(root.findall(f"{SVG}polyline")) == 2
    texts = [t.text for t in root.findall(f"{SVG}text")]
    assert "accuracy 75%" in texts
    assert "tool use 50%" in texts
    assert "3" in texts


@pytest.mark.parametrize("metrics", [None, "", '{"kind": "sft", "step": 1, "loss": 1.0}\n'])
def test_a_run_without_accuracy_has_no_picture(tmp_path: Path, metrics: str | None) -> None:
    if metrics is not None:
        (tmp_path / "metrics.jsonl").write_text(metrics)
    with pytest.raises(ConfigError, match="no picture to draw"):
        write_picture(tmp_path, tmp_path / "out.svg")
    assert not (tmp_path / "out.svg").exists()


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "rl", "step": 1, "accuracy": 1.0}\n')
    with pytest.raises(ConfigError, match="cannot write"):
        write_picture(tmp_path, tmp_path / "absent" / "out.svg")


def test_names_are_text_and_everything_lies_inside(tmp_path: Path) -> None:
    curves = {"<b>&\u00e9": ([5.0], [1.0]), "other": ([5.0], [1.0]), "third": ([5.0], [-3.0])}
    root = ElementTree.fromstring(curves_svg(curves, title="a < b"))
    assert root.find(f"{SVG}title").text == "a < b"  # pyright: ignore[reportOptionalMemberAccess]
    labels = [t for t in root.findall(f"{SVG}text") if "label" in t.get("class", "")]
    assert [t.text for t in labels] == ["<b>&\u00e9 100%", "other 100%", "third -300%"]
    heights = [float(t.get("y", "nan")) for t in labels]
    assert all(b - a >= 18 for a, b in pairwise(heights))
    for text in root.findall(f"{SVG}text"):
        assert 0 <= float(text.get("x", "nan")) <= WIDTH
        assert 0 <= float(text.get("y", "nan")) <= HEIGHT
