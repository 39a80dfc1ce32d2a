"""agentmath data: figures of files and recipes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentmath.cli.main import main

ROWS = [
    {"problem": "Count the ants.", "answer": 12, "level": 1},
    {"problem": "count the ants", "answer": "12", "level": 1},
    {"problem": "Name the queen.", "answer": "Ada", "level": 2},
    {"problem": 'What is half of 7? Write the answer behind "Answer:".', "answer": "7/2", "level": 2},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [*(json.dumps(row) for row in ROWS), '{"problem": "half']
    Path("ants.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["data", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("folder")
def test_a_file_is_shown_in_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ants.jsonl") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "ants: 5 rows read, 3 tasks kept",
        "  left out    1 repeats, 1 bad (not JSON)",
        "  cut         sentences on how to answer, from 1 questions",
        "  answers     1 integer, 1 number, 1 words",
        "  question    5% up to 15, 50% up to 15, 95% up to 18, 100% up to 18 characters",
        "  difficulty  1: 1, 2: 2",
        "  ants-1: Count the ants. -> 12",
        "  ants-3: Name the queen. -> Ada",
        "  ants-4: What is half of 7? -> 7/2",
    ]
    assert err.startswith("warning: data.ants: 1 of 5 rows cannot be used and are left out (1 not JSON): ants.jsonl, ")


@pytest.mark.usefixtures("folder")
def test_figures_come_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ants.jsonl", "ants.jsonl", "--json", "--question-column", "problem") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first == second
    assert first["counts"] == {
        "rows": 5, "kept": 3, "repeats": 1, "conflicting": 0, "bad": {"not JSON": 1}, "outside": {}, "instructions": 1,
    }  # fmt: skip
    assert first["bands"] == {"1": 1, "2": 2}
    assert [task["answer"] for task in first["samples"]] == ["12", "Ada", "7/2"]


@pytest.mark.usefixtures("folder")
def test_a_recipe_shows_its_sources_as_it_would_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.toml").write_text(
        '[[data]]\nname = "ants"\npath = "ants.jsonl"\nbad_rows = "skip"\nheld_out = 1\n'
        '[[data]]\nname = "made"\nkind = "word_problem"\nmax_tasks = 8\nsteps = [5]\n'
        '[[data]]\nname = "absent"\nrole = "eval"\n'
    )
    assert run("own.toml", "--data.ants.difficulty", "[2.0, 2.0]") == 0
    out, err = capsys.readouterr()
    assert "1 repeats" not in out
    assert "2 outside difficulty" in out
    assert "made: 8 rows read, 8 tasks kept" in out
    assert "difficulty  5: 8" in out
    assert "data.absent has no file and is left out" in err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "name a recipe or data files"),
        (("none.jsonl",), 3, "none.jsonl does not exist"),
        (("ants.jsonl", "--kind", "gsm8k"), 3, "5 of 5 rows of ants.jsonl cannot be used as kind gsm8k"),
        (("ants.jsonl", "--answer-column", "level.x"), 3, "cannot be used as kind question_answer"),
        (("ants.jsonl", "--jason"), 2, "unknown option --jason for files"),
        (("quickstart", "--kind", "svamp"), 2, "--kind goes with files; in a recipe write --data.NAME.kind VALUE"),
        (("quickstart", "ants.jsonl"), 2, "one recipe is expected, not 2"),
        (("own.toml",), 2, "there is no recipe 'own.toml'"),
        (("ants.jsonl", "--split", "train"), 3, "is not a folder: split and subset choose"),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_sentence(
    arguments: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert "Traceback" not in err
