from __future__ import annotations

from pathlib import Path

import pytest

from agentmath.cli.view import view
from agentmath.core.errors import ConfigError, DataError


def test_a_run_gets_its_report_beside_its_metrics(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "rl", "step": 1, "time_seconds": 1.0, "accuracy": 0.5}\n')
    assert view(tmp_path) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_folder_that_is_no_run_is_refused_and_runs_below_are_named(tmp_path: Path) -> None:
    (tmp_path / "quick-0").mkdir()
    (tmp_path / "quick-0" / "recipe.toml").write_text("")
    with pytest.raises(ConfigError, match="holds runs: quick-0"):
        view(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        view(tmp_path / "absent")
    with pytest.raises(ConfigError, match="is a file"):
        view(tmp_path / "quick-0" / "recipe.toml")
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigError, match="holds no run"):
        view(tmp_path / "other")


@pytest.mark.parametrize("metrics", [None, "", '{"kind": "rl", "st'])
def test_a_run_without_any_metrics_says_so(tmp_path: Path, metrics: str | None) -> None:
    (tmp_path / "recipe.toml").write_text("")
    if metrics is not None:
        (tmp_path / "metrics.jsonl").write_text(metrics)
    with pytest.raises(ConfigError, match="no metrics"):
        view(tmp_path)


def test_damaged_metrics_name_the_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("hello\n")
    with pytest.raises(DataError, match="line 1"):
        view(tmp_path)


def test_a_report_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "rl", "step": 1}\n')
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ConfigError, match="cannot write"):
        view(tmp_path)
