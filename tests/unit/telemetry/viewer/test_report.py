from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentmath.core.errors import ConfigError
from agentmath.telemetry.viewer import write_report
from agentmath.telemetry.viewer.report import tiles, to_json

Record = Callable[..., Path]


class Elements(HTMLParser):
    """Start tags with their attributes, and the text inside scripts and styles, as a browser splits them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.texts.append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data


def data_of(page: str) -> dict[str, Any]:
    elements = Elements(page)
    at = [tag for tag, _ in elements.tags if tag in ("script", "style")].index("script")
    return json.loads(elements.texts[at])


def test_the_report_is_one_page_that_loads_nothing(record: Record) -> None:
    run = record()
    assert write_report(run) == run / "report.html"
    page = (run / "report.html").read_text(encoding="ascii")
    tags = Elements(page).tags
    assert [t for t, _ in tags if t in ("script", "style", "link", "img", "iframe")] == ["style", "script", "script"]
    assert not any("src" in attributes or "href" in attributes for _, attributes in tags)
    assert not re.search(r"\{\{[A-Z_]+\}\}", page.replace("{{SCRIPT}}", ""))


def test_hostile_text_stays_data(record: Record) -> None:
    run = record()
    page = write_report(run).read_text()
    assert page.count("<script") == 2
    assert "<img" not in page
    data = data_of(page)
    assert data["trajectories"][0]["question"].startswith("</script><script>")
    assert "\u202eevil\x00 {{SCRIPT}}" in data["trajectories"][0]["question"]
    assert "</script>" in data["recipe"]


def test_only_the_pages_own_script_and_style_may_run(record: Record) -> None:
    page = write_report(record()).read_text()
    elements = Elements(page)
    policy = next(a["content"] for t, a in elements.tags if t == "meta" and "http-equiv" in a)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    style, _, script = elements.texts
    for text in (style, script):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_json_cannot_close_its_element_whatever_it_holds() -> None:
    text = to_json({"a": "</script><!--<script>&amp;\u2028\ud800", "b": float("nan"), "c": [float("inf"), 1.5]})
    assert not set("<>&") & set(text)
    assert text.isascii()
    back = json.loads(text)
    assert back["a"] == "</script><!--<script>&amp;\u2028\ud800"
    assert (back["b"], back["c"]) == ("nan", ["inf", 1.5])


def test_a_run_in_progress_shows_where_its_metrics_went(record: Record) -> None:
    data = data_of(write_report(record()).read_text())
    assert data["finished"] is False
    assert data["tiles"][0] == {"label": "accuracy", "unit": "share", "before": 0.1, "after": 0.2}
    assert {"label": "steps", "unit": "", "after": 2} in data["tiles"]


def test_a_finished_run_shows_its_summary(record: Record) -> None:
    run = record()
    (run / "summary.json").write_text(
        '{"accuracy_before": 0.38, "accuracy_after": 0.93, "seed": 4, "tokens_per_second": 9e3}'
    )
    data = data_of(write_report(run).read_text())
    assert data["finished"] is True
    assert data["tiles"][0] == {"label": "accuracy", "unit": "share", "before": 0.38, "after": 0.93}
    assert {"label": "seed", "unit": "", "after": 4} in data["tiles"]


def test_a_supervised_run_shows_its_loss_and_an_empty_one_nothing() -> None:
    events = [{"kind": "sft", "step": 1, "loss": 3.0}, {"kind": "sft", "step": 2, "loss": None}]
    events.append({"kind": "sft", "step": 3, "loss": 0.5})
    assert tiles({}, events)[0] == {"label": "supervised loss", "unit": "", "before": 3.0, "after": 0.5}
    assert tiles({}, []) == []
    assert tiles({"accuracy_before": None, "accuracy_after": "?"}, []) == []


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": '])
def test_a_torn_summary_is_left_out_and_said(record: Record, text: str) -> None:
    run = record()
    (run / "summary.json").write_text(text)
    data = data_of(write_report(run).read_text())
    assert data["finished"] is False
    assert "summary.json could not be read and is left out." in data["notes"]


def test_a_run_without_trajectories_or_recipe_still_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "sft", "step": 1, "loss": 1.0}\n')
    data = data_of(write_report(tmp_path).read_text())
    assert (data["trajectories"], data["recipe"]) == ([], "")


def test_a_report_that_cannot_be_written_leaves_the_old_one(record: Record) -> None:
    run = record()
    write_report(run)
    old = (run / "report.html").read_bytes()
    (run / "report.html.tmp").mkdir()
    with pytest.raises(ConfigError, match="cannot write"):
        write_report(run)
    assert (run / "report.html").read_bytes() == old


def test_a_megabyte_in_one_line_stays_a_small_report(record: Record) -> None:
    run = record(steps=1, samples=4, text="x" * 1_000_000)
    page = write_report(run).read_text()
    assert len(page) < 500_000
    assert "characters are not shown" in page


def test_a_browser_draws_the_page_and_runs_nothing_else(record: Record) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium to open the page with")
    report = write_report(record())
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={report.parent / 'browser'}"]
    command = [browser, *flags, "--virtual-time-budget=2000", "--dump-dom", report.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    if shown.returncode != 0 or "<html" not in shown.stdout:
        pytest.skip(f"chromium does not start here: {shown.stderr[-200:]}")
    dom = shown.stdout
    assert "<title>run-0 - agentmath</title>" in dom
    assert "<h2>Reinforcement learning</h2>" in dom
    assert 'class="line c0"' in dom
    assert '<span class="ctl">U+202E</span>' in dom
    assert "<img" not in dom


def test_evaluations_show_their_interval_behind_the_value(record: Record) -> None:
    run = record()
    event = {"kind": "eval", "step": 0, "set": "svamp", "name": "svamp", "accuracy": 0.5}
    event |= {"accuracy_low": 0.4, "accuracy_high": 0.6, "tool_use": 1.0}
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(event) + "\n")
    assert data_of(write_report(run).read_text())["evaluations"] == {
        "names": ["step", "set", "accuracy", "tool_use"],
        "rows": [[0, "svamp", "0.500 [0.400, 0.600]", 1.0]],
    }
