from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.errors import DataError
from agentmath.data import files
from agentmath.data.files import Fault, RowError, read_rows, scan_rows

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
    (tmp_path / "g.json").write_text(json.dumps({"version": 1, "data": ROWS}, indent=2))
    (tmp_path / "h.json").write_text(json.dumps({"train": ROWS}))
    assert cells(tmp_path / "g.json") == cells(tmp_path / "h.json") == ROWS
    table = pyarrow.Table.from_pylist([{"question": "1+1?", "answer": "2", "extra": {"index": 3}}])
    pyarrow.parquet.write_table(table, tmp_path / "f.parquet")
    assert cells(tmp_path / "f.parquet") == [{"question": "1+1?", "answer": "2", "extra": {"index": 3}}]


def test_arrow_streams_are_read_whatever_the_size_of_their_batches(tmp_path: Path) -> None:
    table = pyarrow.table({"question": [str(i) for i in range(3000)]})
    with pyarrow.OSFile(str(tmp_path / "a.arrow"), "wb") as out, pyarrow.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table, max_chunksize=1500)
    rows = list(read_rows(str(tmp_path / "a.arrow")))
    assert [(r.number, r.cells["question"]) for r in rows] == [(i + 1, str(i)) for i in range(3000)]
    assert rows[-1].where.endswith("a.arrow, row 3000")


def test_rows_behind_a_bad_one_are_read(tmp_path: Path) -> None:
    lines = [b'{"a": 1}', b"{", b"", b'"text"', b'{"a": "\xff"}', '{"a": "\u00e9\u2028"}'.encode(), b"null"]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    found = list(scan_rows(str(tmp_path / "a.jsonl")))
    faults = [(row.number, row.fault) for row in found if isinstance(row, RowError)]
    assert faults == [(2, Fault.NOT_JSON), (4, Fault.NOT_A_ROW), (5, Fault.NOT_TEXT), (7, Fault.NOT_A_ROW)]
    assert [(r.number, r.cells) for r in found if not isinstance(r, RowError)] == [
        (1, {"a": 1}),
        (6, {"a": "\u00e9\u2028"}),
    ]


def test_a_line_without_end_is_passed_over_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_CHARS", 10)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' + "x" * 95 + '\n{"a": 2}\n' + "y" * 20)
    found = list(scan_rows(str(tmp_path / "a.jsonl")))
    assert [row.number for row in found] == [1, 2, 3, 4]
    assert [isinstance(row, RowError) and row.fault for row in found] == [False, Fault.TOO_LONG, False, Fault.TOO_LONG]
    assert "line 2: longer than 10 characters" in str(found[1])


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINES.encode(), mtime=0)[:-8])
    rows = read_rows(str(tmp_path / "a.jsonl.gz"))
    assert next(rows).cells == ROWS[0]


@given(st.binary(max_size=200), st.sampled_from(["a.jsonl", "a.json", "a.jsonl.gz", "a.parquet", "a.arrow"]))
def test_whatever_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
):
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(content)
    try:
        list(scan_rows(str(path)))
    except DataError as error:
        assert name in str(error)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), min_size=1, max_size=5))
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]) -> None:
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", newline="")
    assert cells(path) == rows


def test_byte_order_marks_line_ends_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    text = "\ufeff" + LINES.replace("\n", "\r\n\r\n")
    (tmp_path / "a.jsonl").write_bytes(text.encode())
    assert [(r.number, r.cells) for r in read_rows(str(tmp_path / "a.jsonl"))] == [(1, ROWS[0]), (3, ROWS[1])]
    (tmp_path / "b.json").write_bytes(("\ufeff\r\n" + json.dumps(ROWS)).encode())
    assert cells(tmp_path / "b.json") == ROWS


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
        ("a.json", b'{"a": [1], \n"b": [2]}', "expected a list of rows .* or a row a line, found an object"),
        ("a.json", b'{"a": 1', "not JSON at column"),
        ("a.json", b'[{"a": 1},\n{"a": }]', "not JSON at line 2 column"),
        ("a.json", b"[[1]]", "row 1: expected an object.*found a list"),
        ("a.jsonl", b'{"a": "\xff"}', "not UTF-8"),
        ("a.jsonl", b"[" * 100_000, "line 1"),
        ("a.jsonl", b'{"a": ' + b"1" * 5000 + b"}", "line 1: JSON that cannot be read"),
        ("a.jsonl.gz", b"no gzip", "cannot be read"),
        ("a.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)[:-12], "cannot be read"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as parquet"),
        ("a.arrow", b"ARROW", "cannot be read as arrow"),
        ("a.jsonl", '{"a": 1}'.encode("utf-16"), "line 1: not UTF-8 text: byte 0xff; convert"),
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
