from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from agentmath.core.errors import DataError
from agentmath.data.files import read_rows

ROWS = [{"question": "1+1?", "answer": 2}, {"question": "2+2?", "answer": "4"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def cells(path: Path) -> list[dict[str, object]]:
    return [row.cells for row in read_rows(str(path))]


def test_the_same_rows_come_out_of_every_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "b.json").write_text(json.dumps(ROWS, indent=2))
    (tmp_path / "c.json").write_text(LINES)
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(LINES.encode(), mtime=0))
    (tmp_path / "e.json.gz").write_bytes(gzip.compress(json.dumps(ROWS).encode(), mtime=0))
    assert all(cells(tmp_path / name) == ROWS for name in ("a.jsonl", "b.json", "c.json", "d.jsonl.gz", "e.json.gz"))
    table = pyarrow.Table.from_pylist([{"question": "1+1?", "answer": "2", "extra": {"index": 3}}])
    pyarrow.parquet.write_table(table, tmp_path / "f.parquet")
    assert cells(tmp_path / "f.parquet") == [{"question": "1+1?", "answer": "2", "extra": {"index": 3}}]


def test_byte_order_marks_line_ends_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    text = "\ufeff" + LINES.replace("\n", "\r\n\r\n")
    (tmp_path / "a.jsonl").write_bytes(text.encode())
    assert [(r.number, r.cells) for r in read_rows(str(tmp_path / "a.jsonl"))] == [(1, ROWS[0]), (3, ROWS[1])]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b"\xef\xbb\xbf\n \n", "is empty"),
        ("a.json", b"[]", "is empty"),
        ("a.jsonl", b'{"question": 1}\n{"question": 2\n', r"line 2: not JSON at column \d+"),
        ("a.jsonl", b"[1]\n", "line 1: expected an object with columns"),
        ("a.jsonl", b"null\n", "line 1: expected an object.*found null"),
        ("a.json", b'"text"', "expected a list of rows"),
        ("a.json", b'[{"a": 1},\n{"a": }]', "not JSON at line 2 column"),
        ("a.json", b"[[1]]", "row 1: expected an object.*found a list"),
        ("a.jsonl", b'{"a": "\xff"}', "not UTF-8"),
        ("a.jsonl", b"[" * 100_000, "line 1"),
        ("a.jsonl", b'{"a": ' + b"1" * 5000 + b"}", "line 1: JSON that cannot be read"),
        ("a.jsonl.gz", b"no gzip", "cannot be read"),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)[:-12], "cannot be read"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as parquet"),
        ("a.csv", b"a,b", "expected a file that ends in .jsonl"),
    ],
)
def test_a_fault_names_the_file_and_the_place(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        cells(tmp_path / name)
    assert name in str(caught.value)


def test_missing_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        cells(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="is a folder"):
        cells(tmp_path)
