"""agentmath simulate: what it prints, draws and refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from agentmath.cli.main import main
from agentmath.config.scenario_file import load_scenario

QUICK = ("quickstart", "--run.num_seeds", "2", "--run.steps", "3")


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *arguments])
    printed = capsys.readouterr()
    assert ended.value.code == code, printed.err
    return printed.out if code == 0 else printed.err


def test_the_table_has_a_line_for_each_row_and_says_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, *QUICK).splitlines()
    assert lines[0].split()[:3] == ["mode", "policy", "traj/s"]
    assert [line.split()[0] for line in lines[1:5]] == ["batch", "segments", "quota", "async"]
    assert "off-policy" not in lines[1]
    assert all(line.endswith("off-policy") for line in lines[2:5])
    assert any("fastest on-policy: batch/breakable" in line for line in lines)
    assert any("not like for like" in line for line in lines)


def test_json_holds_rows_and_the_settings_that_gave_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, *QUICK, "--json"))
    assert [row["mode"] for row in found["rows"]] == ["batch", "segments", "quota", "async"]
    assert all(0 < row["of_limit"] <= 1 and len(row["rates"]) == 2 for row in found["rows"])
    assert found["settings"]["run"]["num_seeds"] == 2
    assert found == json.loads(run(capsys, *QUICK, "--json"))


def test_json_of_one_seed_has_no_number_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "quickstart", "--run.num_seeds=1", "--json")
    assert "Infinity" not in text
    assert json.loads(text)["rows"][1]["factor_ci"][1] is None


def test_the_picture_is_one_file_that_needs_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "engines.svg"
    assert f"picture: {path}" in run(capsys, *QUICK, "--picture", str(path))
    text = path.read_text("ascii")
    links = [value for node in ElementTree.fromstring(text).iter() for key, value in node.items() if "href" in key]
    assert len(links) == 4
    assert all(link.startswith("data:image/png;base64,") for link in links)
    assert "quota/breakable" in text


def test_show_prints_a_scenario_that_loads_as_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "slow_tools", "--engines.count=5", "--show")
    assert tomllib.loads(text)["engines"]["count"] == 5
    path = tmp_path / "shown.toml"
    path.write_text(text)
    assert load_scenario(str(path)) == load_scenario("slow_tools", ["--engines.count=5"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a scenario"),
        (("--engines.count=3",), "name a scenario"),
        (("quickstrat",), "did you mean quickstart?"),
        (("quickstart", "--picture", "x.png"), "ends in .svg"),
        (("quickstart", "--engines.count", "0"), "engines.count = 0: must be a whole number, at least 1"),
        (("quickstart", "more"), "unexpected argument 'more'"),
    ],
)
def test_what_cannot_be_simulated_is_one_sentence(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = run(capsys, *arguments, code=2)
    assert said in error
    assert "Traceback" not in error


def test_a_picture_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot write" in run(capsys, *QUICK, "--picture", str(tmp_path / "no/such/folder.svg"), code=2)
