from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pyarrow.parquet
import pytest

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError, DataError
from agentmath.data.sources import Source, SourceCounts, load_source

Kind = Literal["gsm8k", "svamp", "question_answer"]
GOOD = [{"question": f"q{i}", "answer": i} for i in range(6)]


def load(tmp_path: Path, *rows: dict[str, Any] | str, kind: Kind = "question_answer", **settings: Any) -> Source:
    path = tmp_path / "rows.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return load_source(DataSection(name="x", kind=kind, path=str(path), **settings), seed=0)


def total(counts: SourceCounts) -> int:
    bad, outside = counts.bad.total(), counts.outside.total()
    return counts.kept + bad + outside + counts.repeats + counts.conflicting


def test_a_bad_row_ends_the_run_unless_it_is_skipped(tmp_path: Path) -> None:
    bad = [
        '{"question": "half',
        {"question": "q"},
        {"question": "q", "answer": None},
        "[1]",
        {"question": "q", "answer": [1, 2]},
    ]
    with pytest.raises(DataError, match=r"rows\.jsonl, line 7: not JSON"):
        load(tmp_path, *GOOD, *bad)
    source = load(tmp_path, *bad, *GOOD, bad_rows="skip")
    assert [t.question for t in source.tasks] == [row["question"] for row in GOOD]
    assert source.counts.bad == {
        "not JSON": 1, "missing column": 1, "null": 1, "not an object": 1, "wrong type": 1,
    }  # fmt: skip
    assert total(source.counts) == source.counts.rows == 11
    (warning,) = source.counts.warnings("x")
    assert warning.startswith("data.x: 5 of 11 rows cannot be used and are left out (")
    assert [f"line {n}" in warning for n in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_file_of_mostly_bad_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"2 of 3 rows of .*rows.jsonl cannot be used as kind question_answer"):
        load(tmp_path, GOOD[0], {"a": 1}, {"b": 2}, bad_rows="skip")
    assert load(tmp_path, GOOD[0], {"a": 1}, bad_rows="skip").counts.kept == 1


def test_bytes_that_are_no_text_spoil_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"question": "q\xff", "answer": 1}\n{"question": "r", "answer": 2}\n')
    section = DataSection(name="x", path=str(tmp_path / "a.jsonl"), bad_rows="skip")
    source = load_source(section, seed=0)
    assert [t.question for t in source.tasks] == ["r"]
    assert source.counts.bad == {"not UTF-8": 1}


def test_a_question_of_a_megabyte_is_refused_with_its_length(tmp_path: Path) -> None:
    huge = {"question": "1+1? " * 200_000, "answer": 2}
    with pytest.raises(DataError, match="a question of 999,999 characters: at most max_question_chars = 20000"):
        load(tmp_path, huge)
    assert load(tmp_path, GOOD[0], huge, bad_rows="skip").counts.bad == {"too long": 1}
    assert load(tmp_path, huge, max_question_chars=10**6).counts.kept == 1


def test_repeats_are_left_out_and_counted_or_kept_on_purpose(tmp_path: Path) -> None:
    """What DAPO-Math's file is like: each prompt a hundred times."""
    prompt = [{"role": "user", "content": 'How many?\n\nWrite the answer behind "Answer:".'}]
    rows = [{"prompt": prompt, "reward_model": {"ground_truth": "4"}}] * 100 + GOOD
    dropped = load(tmp_path, *rows)
    assert (dropped.counts.kept, dropped.counts.repeats, dropped.counts.instructions) == (7, 99, 100)
    kept = load(tmp_path, *rows, repeats="keep")
    assert (kept.counts.kept, kept.counts.repeats) == (106, 0)
    assert len({t.id for t in kept.tasks}) == 106


def test_max_tasks_counts_what_is_kept_and_reading_stops_there(tmp_path: Path) -> None:
    rows = [GOOD[0], GOOD[0], {"question": "q0?", "answer": 0}, *GOOD[1:], "never read"]
    source = load(tmp_path, *rows, max_tasks=3)
    assert [t.answer for t in source.tasks] == ["0", "1", "2"]
    assert (source.counts.rows, source.counts.repeats) == (5, 2)


def test_ids_are_the_rows_own_or_their_numbers_and_always_unique(tmp_path: Path) -> None:
    rows = [{"id": 7, **row} for row in GOOD[:3]] + [{"id": "7#2", **GOOD[3]}, "", {"id": " ", **GOOD[4]}]
    assert [t.id for t in load(tmp_path, *rows).tasks] == ["7", "7#2", "7#3", "7#2#2", "x-6"]
    assert {t.source for t in load(tmp_path, *rows).tasks} == {"x"}


def test_only_rows_with_the_wanted_number_of_steps_are_kept(tmp_path: Path) -> None:
    one = {"question": "q", "answer": "2*3 = <<2*3=6>>6\n#### 6"}
    two = {"question": "r", "answer": "2+3=<<2+3=5>>5, 5*2=<<5*2=10>>10\n#### 10"}
    source = load(tmp_path, one, two, kind="gsm8k", steps=(2,))
    assert [t.question for t in source.tasks] == ["r"]
    assert source.counts.outside == {"steps": 1}
    with pytest.raises(DataError, match=r"no row of .* is kept by steps = \[3\]"):
        load(tmp_path, one, two, kind="gsm8k", steps=(3,))


def test_bands_of_difficulty_are_closed_and_rows_without_one_are_outside(tmp_path: Path) -> None:
    levels = ["Level 1", "Level 3", 5, "Level ?", None]
    rows = [row | {"level": level} for row, level in zip(GOOD, levels, strict=False)]
    source = load(tmp_path, *rows, difficulty=(3, 5))
    assert [t.difficulty for t in source.tasks] == [3.0, 5.0]
    assert source.counts.outside == {"difficulty": 3}
    assert source.counts.difficulties == {"3": 1, "5": 1}
    assert [t.answer for t in load(tmp_path, *rows, levels=("level 3", "5")).tasks] == ["1", "2"]
    with pytest.raises(DataError, match=r"kept by difficulty = \[6.0, 7.0\]"):
        load(tmp_path, *rows, difficulty=(6, 7))


def test_words_may_be_levels(tmp_path: Path) -> None:
    rows = [row | {"difficulty": "hard" if i % 2 else "Easy"} for i, row in enumerate(GOOD)]
    assert [t.answer for t in load(tmp_path, *rows, levels=("easy",)).tasks] == ["0", "2", "4"]


def test_a_pass_rate_of_a_named_column_is_a_difficulty(tmp_path: Path) -> None:
    rows = [row | {"meta": {"rate": i / 5}} for i, row in enumerate(GOOD)]
    source = load(tmp_path, *rows, difficulty_column="meta.rate", difficulty=(0.2, 0.8))
    assert [t.difficulty for t in source.tasks] == [0.2, 0.4, 0.6, 0.8]


def test_only_contradictions_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="all 2 rows ask questions that stand there with different answers"):
        load(tmp_path, {"question": "q", "answer": 1}, {"question": "Q", "answer": 2})


def test_parquet_as_trainers_write_it_is_read(tmp_path: Path) -> None:
    rows = [
        {
            "data_source": "own",
            "prompt": [{"role": "user", "content": f"What is {i} + 1?"}],
            "reward_model": {"style": "rule", "ground_truth": str(i + 1)},
            "extra_info": {"index": i, "split": "train"},
        }
        for i in range(3)
    ]
    path = tmp_path / "train.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    source = load_source(DataSection(name="x", path=str(path)), seed=0)
    assert [(t.question, t.answer) for t in source.tasks] == [(f"What is {i} + 1?", str(i + 1)) for i in range(3)]


def test_generators_need_a_number_and_files_a_path() -> None:
    with pytest.raises(ConfigError, match="set max_tasks"):
        load_source(DataSection(name="x", kind="arithmetic"), seed=0)
    with pytest.raises(ConfigError, match=r"--data\.x\.path FILE"):
        load_source(DataSection(name="x", kind="svamp"), seed=0)


@pytest.mark.parametrize("kind", ["arithmetic", "two_step", "word_problem"])
def test_generated_problems_are_counted_like_rows(kind: Literal["arithmetic", "two_step", "word_problem"]) -> None:
    source = load_source(DataSection(name="x", kind=kind, max_tasks=9), seed=3)
    assert [t.source for t in source.tasks] == ["x"] * 9
    assert (source.counts.rows, source.counts.kept) == (9, 9)


@pytest.mark.parametrize(
    ("name", "kind", "rows", "kept", "repeats"),
    [
        ("svamp.jsonl", "svamp", 1000, 1000, 0),
        ("svamp.jsonl", "question_answer", 1000, 1000, 0),
        ("gsm8k_train.jsonl.gz", "gsm8k", 7473, 7473, 0),
        ("gsm8k_test.jsonl", "gsm8k", 1319, 1319, 0),
        ("multiarith.jsonl", "question_answer", 600, 580, 20),
        ("math500.jsonl", "question_answer", 500, 500, 0),
        ("math_train.jsonl.gz", "question_answer", 7474, 7469, 1),
        ("aime2024.jsonl", "question_answer", 30, 30, 0),
        ("hmmt_feb_2025.jsonl", "question_answer", 30, 30, 0),
        ("aime_1983_2023.jsonl.gz", "question_answer", 975, 975, 0),
        ("deepscaler_subset.jsonl.gz", "question_answer", 803, 781, 22),
    ],
)
def test_real_files_are_read(
    name: str, kind: Kind, rows: int, kept: int, repeats: int, real_file: Callable[[str], Path]
) -> None:
    """Of deepscaler's 22 repeats, 21 are letter by letter; math has 4 rows without an answer."""
    path = str(real_file(name))
    source = load_source(DataSection(name="x", kind=kind, path=path, bad_rows="skip"), seed=0)
    counts = source.counts
    assert (counts.rows, counts.kept, counts.repeats, counts.conflicting) == (rows, kept, repeats, 0)
    assert counts.instructions == 0
    assert total(counts) == rows
    assert len(source.tasks) == len({t.id for t in source.tasks}) == kept
    assert all(t.question and t.answer for t in source.tasks)


def test_real_files_keep_levels_marks_and_equations(real_file: Callable[[str], Path]) -> None:
    def tasks(name: str, **settings: Any) -> Source:
        return load_source(DataSection(name="x", path=str(real_file(name)), **settings), seed=0)

    math = tasks("math500.jsonl").counts
    assert math.difficulties == {"1": 43, "2": 90, "3": 105, "4": 128, "5": 134}
    assert tasks("math500.jsonl", difficulty=(4.0, 5.0)).counts.kept == 128 + 134
    assert {t.subject for t in tasks("math500.jsonl").tasks} >= {"Algebra", "Precalculus"}
    marks = sum(len(t.intermediate) for t in tasks("gsm8k_test.jsonl").tasks)
    assert marks == 4282
    assert sum(not t.intermediate for t in tasks("gsm8k_test.jsonl").tasks) == 18
    assert all(t.intermediate[-1:] == (t.answer,) for t in tasks("svamp.jsonl").tasks[:100])
