from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentmath.cli.main import main
from agentmath.conformance import ours
from agentmath.conformance.cases import shipped_cases, words


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["conformance", *arguments])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def test_a_line_for_each_case(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["case"] for line in lines] == [case.id for case in shipped_cases()]
    assert {line["verdict"] for line in lines} <= {"agrees", "unsupported"}


def test_a_table_ends_with_the_counts(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys)
    assert code == 0
    assert out.splitlines()[-1].startswith("agentmath: ")
    assert out.splitlines()[-1].endswith(f"of {len(shipped_cases())} cases")


def test_cases_are_exported_and_answers_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    cases, answers = tmp_path / "cases.jsonl", tmp_path / "answers.jsonl"
    assert run(capsys, "--export", str(cases))[0] == 0
    names = [json.loads(line)["id"] for line in cases.read_text().splitlines()]
    assert names == [case.id for case in shipped_cases()]
    given = [{"id": case.id, **ours.answer(case)} for case in shipped_cases()]
    answers.write_text("".join(json.dumps(words(row)) + "\n" for row in given))
    assert run(capsys, "--answers", str(answers))[0] == 0
    answers.write_text(json.dumps({"id": "on-policy", "loss": 0.25, "gradient": "nan"}) + "\n")
    code, out, _ = run(capsys, "--answers", str(answers))
    assert code == 1
    assert "1 differs" in out and "unsupported" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "line 1: not JSON"), ('{"id": "none such"}', "there is no case 'none such'"), (None, "cannot be read")],
)
def test_answers_that_cannot_be_read_are_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, message: str
):
    path = tmp_path / "answers.jsonl"
    if text is not None:
        path.write_text(text)
    code, _, err = run(capsys, "--answers", str(path))
    assert code != 0
    assert message in err and "Traceback" not in err


def test_an_unknown_framework_lists_the_known_ones(capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, "--framework", "other")
    assert code != 0
    assert "known are agentmath, trl" in err
