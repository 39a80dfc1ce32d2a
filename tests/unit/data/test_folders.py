from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from agentmath.config.data import DataSection
from agentmath.core.errors import DataError
from agentmath.data.files import Row, RowError
from agentmath.data.folders import source_files, source_rows
from agentmath.data.sources import load_source


def write(folder: Path, *names: str, rows: int = 2) -> Path:
    """Files that each hold rows with the file's own name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cells = [{"question": f"{name} {i}", "answer": "1"} for i in range(rows)]
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(cells), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in cells))
    return folder


def chosen(folder: Path, **settings: str) -> list[str]:
    return [str(Path(file).relative_to(folder)) for file in source_files(str(folder), **settings)]


def questions(path: Path, **settings: str) -> list[str]:
    return [row.cells["question"] for row in source_rows(str(path), **settings) if isinstance(row, Row)]


def test_several_files_are_one_source_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = write(tmp_path, "data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet")
    (folder / "README.md").write_text("words")
    (folder / ".cache").mkdir()
    write(folder, ".cache/old.jsonl")
    assert chosen(folder) == ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]
    rows = list(source_rows(str(folder)))
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert isinstance(rows[2], Row)
    assert rows[2].where.endswith("train-00001-of-00002.parquet, row 1")
    tasks = load_source(DataSection(name="x", path=str(folder)), seed=0).tasks
    assert [t.id for t in tasks] == ["x-1", "x-2", "x-3", "x-4"]


@pytest.mark.parametrize("names", [("train.jsonl", "test.jsonl"), ("data/train-0.jsonl", "data/math_test.jsonl")])
def test_a_split_is_never_guessed(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = write(tmp_path, *names)
    with pytest.raises(DataError, match="holds files of several splits: say which by split"):
        chosen(folder)
    assert chosen(folder, split="train") == [names[0]]
    assert chosen(folder, split="Test") == [names[1]]
    with pytest.raises(DataError, match="no file in it belongs to split 'dev': it holds"):
        chosen(folder, split="dev")


def test_files_beside_a_split_are_not_mixed_into_it(tmp_path: Path) -> None:
    folder = write(tmp_path, "train.jsonl", "more.jsonl")
    with pytest.raises(DataError, match="several splits"):
        chosen(folder)
    assert chosen(write(tmp_path / "b", "a.jsonl", "b.jsonl.gz")) == ["a.jsonl", "b.jsonl.gz"]


def test_subsets_are_folders(tmp_path: Path) -> None:
    folder = write(tmp_path, "main/train-0.parquet", "main/test-0.parquet", "socratic/train-0.parquet")
    with pytest.raises(DataError, match="several folders of data: say which by subset, or name it as path: main, soc"):
        chosen(folder, split="train")
    assert chosen(folder, split="train", subset="main") == ["main/train-0.parquet"]
    with pytest.raises(DataError, match="belongs to subset 'other'"):
        chosen(folder, subset="other")


def test_what_is_no_folder_of_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a folder without data files"):
        chosen(tmp_path)
    write(tmp_path, "a.jsonl")
    with pytest.raises(DataError, match="is not a folder: split and subset choose among the files of one"):
        source_files(str(tmp_path / "a.jsonl"), split="train")
    with pytest.raises(DataError, match="does not exist"):
        list(source_rows(str(tmp_path / "none.jsonl")))
    with pytest.raises(DataError, match="does not exist"):
        list(source_rows("far/away.parquet"))


def test_a_bad_row_of_a_later_file_is_numbered_through(tmp_path: Path) -> None:
    folder = write(tmp_path, "a.jsonl")
    (folder / "b.jsonl").write_text('{\n{"question": "q", "answer": 1}\n')
    bad = [row for row in source_rows(str(folder)) if isinstance(row, RowError)]
    assert [row.number for row in bad] == [3]
    assert "b.jsonl, line 1: not JSON" in str(bad[0])


def test_a_dataset_saved_by_the_datasets_library_is_read_without_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the datasets library is not installed")
    rows = [{"question": f"{i}?", "answer": i} for i in range(5)]
    made = datasets.Dataset.from_list(rows)
    made.save_to_disk(str(tmp_path / "one"), num_shards=2)
    assert questions(tmp_path / "one") == [f"{i}?" for i in range(5)]
    (tmp_path / "one" / "cache-123.arrow").write_bytes(b"left over")
    assert questions(tmp_path / "one") == [f"{i}?" for i in range(5)]
    parts = made.train_test_split(test_size=2, shuffle=False)
    parts.save_to_disk(str(tmp_path / "two"))
    assert questions(tmp_path / "two", split="test") == ["3?", "4?"]
    assert questions(tmp_path / "two" / "train") == ["0?", "1?", "2?"]
    with pytest.raises(DataError, match="several splits"):
        questions(tmp_path / "two")
    (tmp_path / "two/train/data-00000-of-00001.arrow").rename(tmp_path / "two/train/other.arrow")
    with pytest.raises(DataError, match=r"lacks data-00000-of-00001\.arrow, which its state\.json lists"):
        questions(tmp_path / "two", split="train")
