from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from agentmath.core.errors import ConfigError, DataError
from agentmath.data import rewriting
from agentmath.data.files import scan_rows
from agentmath.data.rewriting import Edit, format_of, num_lines, rewrite

LINES = [
    r'{"x": 1.10, "question": "a\u00e9\ud83d\ude00", "n": 123456789012345678901234567890}',
    r'{ "question" :"b", "x":1e400 , "half": "\ud800" }',
    '{"question": "c", "x": -0.0, "x": 2E+1}',
]


def written(path: Path, lines: list[str], end: str = "\n") -> Path:
    data = end.join(lines).encode() + end.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lines_of(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_lines_that_stay_are_copied_as_they_stand(tmp_path: Path, suffix: str, end: str) -> None:
    source = written(tmp_path / f"in{suffix}", LINES, end)
    target = tmp_path / "new" / f"out{suffix}"
    second = 3 if end == "\n\n" else 2
    assert rewrite(source, target, Edit(leave_out={second})) == 2
    assert lines_of(target) == [LINES[0], LINES[2]]
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_column_is_added_behind_cells_that_stay_as_they_stand(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", [*LINES, "{}"])
    rewrite(source, tmp_path / "out.jsonl", Edit(leave_out=(), column="mark", mark=lambda n: f"row {n}"))
    marked = lines_of(tmp_path / "out.jsonl")
    assert [json.loads(line)["mark"] for line in marked] == ["row 1", "row 2", "row 3", "row 4"]
    assert all(new.startswith(old[:-1].rstrip()) for new, old in zip(marked, [*LINES, "{}"], strict=True))
    assert marked[3] == '{"mark": "row 4"}'


def test_no_line_is_written_that_is_not_read(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", ["", LINES[0], "\u00a0", " \t", LINES[2]])
    read = {row.number for row in scan_rows(str(source))}
    assert read == {2, 5}
    assert rewrite(source, tmp_path / "out.jsonl", Edit(leave_out=())) == 2


def test_equal_rows_make_equal_files(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl.gz", LINES)
    for name in ("a", "b"):
        rewrite(source, tmp_path / f"{name}.jsonl.gz", Edit(leave_out=()))
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_bytes_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'\xef\xbb\xbf{"question": "a", "junk": "\xff\xfe"}\n')
    rewrite(source, tmp_path / "out.jsonl", Edit(leave_out=()))
    assert (tmp_path / "out.jsonl").read_bytes() == b'{"question": "a", "junk": "\xff\xfe"}\n'


def test_a_column_that_is_there_already_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", LINES)
    with pytest.raises(DataError, match=r"in.jsonl, line 1 has a column 'x' already"):
        rewrite(source, tmp_path / "out.jsonl", Edit(leave_out=(), column="x"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_an_older_file_stays_when_writing_fails(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", LINES)
    (tmp_path / "out.jsonl").write_text("old")
    with pytest.raises(DataError):
        rewrite(source, tmp_path / "out.jsonl", Edit(leave_out=(), column="x"))
    assert (tmp_path / "out.jsonl").read_text() == "old"


def test_a_table_keeps_its_types_and_notes(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "question": ["a", None, "c"],
            "n": pyarrow.array([1, 2, None], pyarrow.int32()),
            "d": pyarrow.array([[1.5], [], None], pyarrow.list_(pyarrow.float64())),
        }
    ).replace_schema_metadata({"huggingface": "{}", "own": "kept"})
    parquet.write_table(table, tmp_path / "in.parquet")
    assert rewrite(tmp_path / "in.parquet", tmp_path / "out.parquet", Edit(leave_out={2})) == 2
    kept = parquet.read_table(tmp_path / "out.parquet")
    assert kept.equals(table.take([0, 2])) and kept.schema.metadata == table.schema.metadata
    rewrite(tmp_path / "in.parquet", tmp_path / "m.parquet", Edit(leave_out=(), column="mark", mark=lambda n: f"r{n}"))
    marked = parquet.read_table(tmp_path / "m.parquet")
    assert marked.drop_columns("mark").equals(table) and marked["mark"].to_pylist() == ["r1", "r2", "r3"]
    assert marked.schema.metadata == {b"own": b"kept"}
    with pytest.raises(DataError, match="has a column 'n' already"):
        rewrite(tmp_path / "in.parquet", tmp_path / "x.parquet", Edit(leave_out=(), column="n"))


def test_a_line_that_is_too_long_to_be_read_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "MAX_LINE_CHARS", 10)
    source = written(tmp_path / "in.jsonl", ['{"a": 1}', '{"a": "' + "x" * 25 + '"}', '{"a": 2}'])
    assert rewrite(source, tmp_path / "out.jsonl", Edit(leave_out={2})) == 2
    assert lines_of(tmp_path / "out.jsonl") == ['{"a": 1}', '{"a": 2}']


def test_a_file_that_cannot_be_unpacked_is_an_error(tmp_path: Path) -> None:
    cut, text = tmp_path / "cut.jsonl.gz", tmp_path / "no.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 10_000)[:-20])
    text.write_text("{}")
    for source in (cut, text):
        with pytest.raises(DataError, match="cannot be read"):
            rewrite(source, tmp_path / "out.jsonl.gz", Edit(leave_out=()))
        with pytest.raises(DataError, match="cannot be read"):
            num_lines(str(source))
    assert not (tmp_path / "out.jsonl.gz").exists()


def test_only_formats_that_can_be_copied_are_written() -> None:
    assert format_of(Path("a.b.jsonl.gz")) == ".jsonl.gz"
    with pytest.raises(ConfigError, match=r"a.json cannot be written row by row"):
        format_of(Path("a.json"))


def test_rows_are_counted_without_being_read(tmp_path: Path) -> None:
    assert num_lines(str(written(tmp_path / "in.jsonl.gz", LINES))) == 3
    assert num_lines(str(written(tmp_path / "in.json", ["[{}, {}]"]))) is None
    (tmp_path / "no.parquet").write_text("")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        num_lines(str(tmp_path / "no.parquet"))
