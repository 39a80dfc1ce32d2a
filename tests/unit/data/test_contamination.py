from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentmath.core.errors import DataError
from agentmath.data import contamination
from agentmath.data.contamination import EvaluationSet, FileFindings, read_set, report, search_file, set_names
from agentmath.data.decontaminate import EvaluationIndex, Rule, Verdict

Said = dict[str, Any]
ANTS = "Seven ants carry 30 leaves over 12 stones and drop 4 of them. How many leaves are left for the queen?"
BEES = "A hive of 900 bees loses 15 bees a day to birds for 20 days. How many bees does the hive have now?"


def file(path: Path, rows: list[Any]) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def searched(train: str, evaluation: list[str], **options: Any) -> tuple[FileFindings, list[EvaluationSet], Said]:
    """The findings, the sets with theirs, and the report."""
    sets = [read_set(path, name) for path, name in zip(evaluation, set_names(evaluation), strict=True)]
    index = EvaluationIndex([q for member in sets for q in member.questions], Rule())
    found = search_file(train, index, {member.name: member for member in sets}, **options)
    return found, sets, report(index.rule, [found], sets)


def test_rows_and_questions_are_counted_for_each_set(tmp_path: Path) -> None:
    one = file(tmp_path / "one.jsonl", [{"id": "a", "question": ANTS}, {"id": "b", "question": BEES}])
    two = file(tmp_path / "two.jsonl", [{"id": "b", "question": BEES}])
    rows = [ANTS, f"Well: {ANTS}", BEES.replace("900", "700"), f"{ANTS} {BEES}", "Nothing at all."]
    train = file(tmp_path / "train.jsonl", [{"question": text} for text in rows])
    found, _, said = searched(train, [one, two])
    assert found.verdicts == {1: "contaminated", 2: "contaminated", 3: "variant", 4: "contaminated"}
    assert [s["rows"] for s in said["evaluation"]] == [
        {"flagged": 4, "contaminated": 3, "variant": 1, "boilerplate": 0},
        {"flagged": 2, "contaminated": 1, "variant": 1, "boilerplate": 0},
    ]
    assert [s["questions_found"]["contaminated"] for s in said["evaluation"]] == [2, 1]
    assert said["train"][0] == {
        "file": train,
        "rows": 5,
        "flagged": 4,
        "contaminated": 3,
        "variant": 1,
        "boilerplate": 0,
        "unsearched": 0,
        "faults": [],
    }
    # Worst first: 4 contaminated pairs of set one and one of set two, then the variants.
    assert [pair["verdict"] for pair in said["pairs"]] == ["contaminated"] * 5 + ["variant"] * 2
    assert said["pairs"][1]["train_place"] == f"{train}, line 2" and said["pairs"][1]["question_id"] == "a"
    assert said["rule"]["containment"] == 0.7
    json.dumps(said, allow_nan=False)


def test_bad_rows_are_counted_with_their_places_and_the_rest_is_searched(tmp_path: Path) -> None:
    evaluation = file(tmp_path / "e.jsonl", ["{half", {"question": ANTS}, {"question": ""}])
    train = file(tmp_path / "t.jsonl", ["[]", {"question": None}, {"question": ANTS}, "no", {"other": 1}])
    found, _, said = searched(train, [evaluation])
    assert found.verdicts == {3: Verdict.CONTAMINATED}
    assert found.unsearched == {1, 2, 4, 5} and found.num_rows == 1
    assert [fault.split(":")[0] for fault in said["train"][0]["faults"]] == [
        f"{train}, line 1",
        f"{train}, line 2, column 'question'",
        f"{train}, line 4",
        f"{train}, line 5",
    ]
    assert said["evaluation"][0]["unreadable"] == 2


def test_files_without_any_question_are_refused(tmp_path: Path) -> None:
    empty, other = file(tmp_path / "empty.jsonl", []), file(tmp_path / "other.jsonl", [{"text": ANTS}])
    good = file(tmp_path / "good.jsonl", [{"question": ANTS}])
    for bad, said in ((empty, "is empty"), (other, "holds no question.*expected a column 'question'")):
        with pytest.raises(DataError, match=said):
            read_set(bad, "x")
        with pytest.raises(DataError, match=said):
            searched(bad, [good])


def test_further_columns_are_searched_where_they_are_named(tmp_path: Path) -> None:
    evaluation = file(tmp_path / "e.jsonl", [{"question": ANTS}])
    train = file(tmp_path / "t.jsonl", [{"question": "Hello?"}, {"question": "Hello?", "solution": ["As in:", ANTS]}])
    assert searched(train, [evaluation])[0].verdicts == {}
    assert searched(train, [evaluation], columns=["Solution"])[0].verdicts == {2: Verdict.CONTAMINATED}
    with pytest.raises(DataError, match="no row has a column 'soltion'"):
        searched(train, [evaluation], columns=["soltion"])


def test_no_more_pairs_are_kept_than_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contamination, "MAX_PAIRS", 2)
    evaluation = file(tmp_path / "e.jsonl", [{"question": ANTS}])
    train = file(tmp_path / "t.jsonl", [{"question": ANTS}] * 5)
    _, _, said = searched(train, [evaluation])
    assert len(said["pairs"]) == 2 and said["evaluation"][0]["pairs_not_shown"] == 3
    assert said["evaluation"][0]["rows"]["contaminated"] == 5


def test_a_long_row_is_shown_shortened(tmp_path: Path) -> None:
    evaluation = file(tmp_path / "e.jsonl", [{"question": ANTS}])
    train = file(tmp_path / "t.jsonl", [{"question": f"{'word ' * 200_000}{ANTS}"}])
    (pair,) = searched(train, [evaluation])[2]["pairs"]
    assert pair["verdict"] == "contaminated" and len(pair["train"]) < 700
    assert pair["passage"].startswith("7 ants carry 30 leaves")


def test_questions_with_one_id_stay_two(tmp_path: Path) -> None:
    found = read_set(file(tmp_path / "e.jsonl", [{"id": 1, "question": ANTS}, {"id": 1, "question": BEES}]), "e")
    assert [q.id for q in found.questions] == ["1", f"{tmp_path}/e.jsonl, line 2"]


def test_sets_are_called_by_their_files() -> None:
    assert set_names(["a/math500.jsonl", "aime.jsonl.gz"]) == ["math500", "aime"]
    assert set_names(["a/test.jsonl", "b/test.jsonl", "c.json"]) == ["a/test.jsonl", "b/test.jsonl", "c"]


def test_rows_are_heard_of_by_the_thousand(tmp_path: Path) -> None:
    train = file(tmp_path / "t.jsonl", [{"question": f"What is {n} plus one?"} for n in range(2500)])
    heard: list[int] = []
    searched(train, [file(tmp_path / "e.jsonl", [{"question": ANTS}])], on_rows=heard.append)
    assert heard == [1000, 1000]


def test_the_eight_rows_of_aime_inside_math500_are_found(real_file: Callable[[str], Path]) -> None:
    found, (member,), _ = searched(str(real_file("aime_1983_2023.jsonl.gz")), [str(real_file("math500.jsonl"))])
    assert sum(verdict is Verdict.CONTAMINATED for verdict in found.verdicts.values()) == 8
    assert {pair["train_id"] for pair in member.pairs[Verdict.CONTAMINATED]} == {
        "aime-1983-1-2-1",
        "aime-1994-1-13-177",
        "aime-2001-2-3-302",
        "aime-2006-2-5-454",
        "aime-2010-1-6-560",
        "aime-2015-2-6-725",
        "aime-2016-1-10-744",
        "aime-2017-2-7-786",
    }
