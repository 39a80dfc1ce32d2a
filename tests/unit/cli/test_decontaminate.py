"""agentmath decontaminate: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agentmath.cli import contamination
from agentmath.cli.decontaminate import decontaminate
from agentmath.cli.main import main, repeat_against
from agentmath.data.decontaminate import Rule

ANTS = "Seven ants carry 30 leaves over 12 stones and drop 4 of them. How many leaves are left for the queen?"
TRAIN = [
    {"id": "same", "question": ANTS.upper(), "answer": 26},
    {"id": "variant", "question": ANTS.replace("30", "40"), "answer": 36},
    {"id": "clean", "question": "Count the stones.", "answer": 12.0},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files: train.jsonl, which holds eval.jsonl's one question."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    write("train.jsonl", TRAIN)
    write("eval.jsonl", [{"id": "ants", "question": ANTS, "answer": "26"}])
    return tmp_path


def write(name: str, rows: list[Any]) -> None:
    Path(name).write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def ids(name: str) -> list[str]:
    return [json.loads(line)["id"] for line in Path(name).read_text().splitlines()]


def ends(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["decontaminate", *words])
    return int(caught.value.code or 0)


def test_without_an_output_it_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("train.jsonl", "--against", "eval.jsonl") == 0
    said = capsys.readouterr().out
    assert [line.split() for line in said.splitlines()][2] == ["eval", "1", "1", "2", "1", "1", "0"]
    assert "same holds eval ants (equal after normalising, 1.00)" in said
    assert sorted(os.listdir(folder)) == ["eval.jsonl", "train.jsonl"]


def test_drop_leaves_out_the_contaminated_and_variants_only_if_asked(folder: Path) -> None:
    common = ("train.jsonl", "--against", "eval.jsonl", "--drop", "--output", "out.jsonl")
    assert ends(*common, "--report", "deep/report.json") == 0
    assert ids("out.jsonl") == ["variant", "clean"]
    assert Path("out.jsonl").read_text() == "".join(json.dumps(row) + "\n" for row in TRAIN[1:])
    report = json.loads(Path("deep/report.json").read_text())
    assert report["evaluation"][0]["rows"] == {"flagged": 2, "contaminated": 1, "variant": 1, "boilerplate": 0}
    assert [pair["reason"] for pair in report["pairs"]] == ["equal after normalising", "lacks 30"]
    assert ends(*common, "--drop-variants") == 0
    assert ids("out.jsonl") == ["clean"]


def test_mark_keeps_the_rows_and_says_what_each_is(folder: Path) -> None:
    assert ends("train.jsonl", "--against", "eval.jsonl", "--mark", "--output", "out.jsonl") == 0
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row.pop("contamination") for row in rows] == ["contaminated", "variant", "clean"]
    assert rows == TRAIN
    assert ends("train.jsonl", "--against", "eval.jsonl", "--mark", "--mark-column", "m", "--output", "o.jsonl") == 0
    assert json.loads(Path("o.jsonl").read_text().splitlines()[0])["m"] == "contaminated"


def test_several_files_are_written_to_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("more.jsonl", [{"id": "x", "question": "Count the ants."}])
    write("second.jsonl", [{"id": "q", "question": "Count the bees."}])
    words = ("train.jsonl", "more.jsonl", "--against", "eval.jsonl", "second.jsonl", "--drop", "--output", "clean")
    assert ends(*words) == 0
    assert ids("clean/train.jsonl") == ["variant", "clean"] and ids("clean/more.jsonl") == ["x"]
    assert "more.jsonl: 1 rows" in capsys.readouterr().out


def test_bad_rows_are_told_and_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.jsonl", ["{broken", *TRAIN, {"id": "mute"}])
    for action in ("--drop", "--mark"):
        assert ends("train.jsonl", "--against", "eval.jsonl", action, "--output", "out.jsonl") == 0
        assert "mute" not in ids("out.jsonl") and "clean" in ids("out.jsonl")
        assert "warning: train.jsonl: 2 rows could not be searched" in capsys.readouterr().err


def test_an_evaluation_set_as_training_set_is_called_that(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("eval.jsonl", "--against", "eval.jsonl", "--report", "r.json") == 0
    assert "eval.jsonl: every row is contaminated: this is evaluation data" in capsys.readouterr().err
    assert ends("eval.jsonl", "--against", "eval.jsonl", "--drop", "--output", "out.jsonl") == 3
    assert "no row is left, so out.jsonl was not written" in capsys.readouterr().err
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["train.jsonl", "--against", "absent.jsonl"], 3, "absent.jsonl does not exist"),
        (["absent.jsonl", "--against", "eval.jsonl"], 3, "absent.jsonl does not exist"),
        ([".", "--against", "eval.jsonl"], 3, "is a folder"),
        (["train.jsonl", "train.jsonl", "--against", "eval.jsonl"], 2, "named twice"),
        (["train.jsonl", "--against", "eval.jsonl", "--drop"], 2, "--output goes with"),
        (["train.jsonl", "--against", "eval.jsonl", "--output", "o.jsonl"], 2, "--output goes with"),
        (
            ["train.jsonl", "--against", "eval.jsonl", "--drop", "--mark", "--output", "o.jsonl"],
            2,
            "exclude each other",
        ),
        (["train.jsonl", "--against", "eval.jsonl", "--drop-variants"], 2, "goes with --drop"),
        (["train.jsonl", "--against", "eval.jsonl", "--drop", "--output", "o.parquet"], 2, "ends in .jsonl"),
        (["train.jsonl", "--against", "eval.jsonl", "--drop", "--output", "train.jsonl"], 2, "cannot be written too"),
        (["train.jsonl", "--against", "eval.jsonl", "--mark", "--output", "link.jsonl"], 2, "cannot be written too"),
        (["train.jsonl", "--against", "eval.jsonl", "--report", "eval.jsonl"], 2, "cannot be written too"),
        (["train.jsonl", "--against", "eval.jsonl", "--report", "."], 2, "is a folder"),
        (["train.jsonl", "--against", "eval.jsonl", "--containment", "7"], 2, "containment 7.0 is no share"),
        (["train.jsonl", "--against", "eval.jsonl", "--mark", "--mark-column", "id", "--output", "o.jsonl"], 3, "'id'"),
        (["train.jsonl", "--against", "eval.jsonl", "--column", "solution"], 3, "no row has a column 'solution'"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_changes_nothing(
    folder: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "link.jsonl").symlink_to("train.jsonl")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert ends(*words) == code
    error = capsys.readouterr().err
    assert said in error and error.count("error:") == 1 and "Traceback" not in error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_of_evaluation_files_is_read_and_not_written_into(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sets").mkdir()
    (folder / "eval.jsonl").rename(folder / "sets/eval.jsonl")
    assert ends("train.jsonl", "--against", "sets") == 0
    assert "same holds sets ants" in capsys.readouterr().out
    assert ends("train.jsonl", "--against", "sets", "--drop", "--output", "sets/eval.jsonl") == 2
    assert "cannot be written too" in capsys.readouterr().err


def test_a_file_that_grows_meanwhile_is_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contamination, "stamp_of", lambda path: (0, 0))
    assert ends("train.jsonl", "--against", "eval.jsonl", "--drop", "--output", "out.jsonl") == 3
    assert not Path("out.jsonl").exists()


def test_files_behind_against_are_all_evaluation_files() -> None:
    assert repeat_against(["a", "--against", "b", "c", "--drop", "--output", "d"]) == [
        *("a", "--against", "b", "--against", "c"),
        *("--drop", "--output", "d"),
    ]
    assert repeat_against(["--against", "b", "--against", "c"]) == ["--against", "b", "--against", "c"]
    assert repeat_against(["rl", "quickstart"]) == ["rl", "quickstart"]


def test_the_options_have_the_defaults_of_the_rule() -> None:
    defaults = {name: option.default for name, option in inspect.signature(decontaminate).parameters.items()}
    assert asdict(Rule()).items() <= defaults.items()


def test_no_training_file_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends("--against", "eval.jsonl", "train.jsonl") == 2
    assert "TRAIN" in capsys.readouterr().err
