"""Files written again without some of their rows, or with one more column.

Nothing is read as a value and written anew: a line of JSON is copied, a column of parquet stays a column.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentmath.core.errors import ConfigError, DataError
from agentmath.data.files import MAX_LINE_CHARS

LINES = (".jsonl", ".jsonl.gz")
FORMATS = (*LINES, ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is done to the rows of a file, by their numbers as data.files counts them."""

    leave_out: Container[int]
    column: str = ""
    """Name of the new column; empty: none."""
    mark: Callable[[int], str] = str
    """The new column's text in a row."""


def format_of(path: Path) -> str:
    """The suffix that says how a file is written. Raises ConfigError for one that cannot be copied row by row."""
    suffix = next((known for known in FORMATS if path.name.endswith(known)), None)
    if suffix is None:
        raise ConfigError(f"{path} cannot be written row by row: expected a name that ends in {', '.join(FORMATS)}")
    return suffix


def num_lines(path: str) -> int | None:
    """About how many rows a file has, without reading them; None where that is not known. Raises DataError."""
    file = Path(path).expanduser()
    if file.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        try:
            return pyarrow.parquet.ParquetFile(file).metadata.num_rows
        except (pyarrow.ArrowException, OSError) as fault:
            raise DataError(f"{path} cannot be read as parquet: {fault}") from fault
    if not file.name.endswith(LINES):
        return None
    with _unpackable(file), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))


def _kept_lines(file: Path, leave_out: Container[int]) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines that are not blank and not left out, as those are that are too long to be read."""
    opener = gzip.open if file.suffix == ".gz" else open
    number = 0
    is_rest = False
    with _unpackable(file), opener(file, "rt", encoding="utf-8-sig", errors="surrogateescape") as stream:
        while line := stream.readline(MAX_LINE_CHARS):
            number += not is_rest
            is_rest = len(line) == MAX_LINE_CHARS and not line.endswith("\n")
            if number not in leave_out and (text := line.strip()):
                yield number, text


@contextmanager
def _unpackable(file: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise DataError(f"{file} cannot be read: {fault}") from fault


def rewrite(source: Path, target: Path, edit: Edit) -> int:
    """Write the edited rows of source to target and return their number; target appears whole or not at all.

    Raises DataError when the source has the new column already or cannot be read.
    """
    copy = _copy_table if format_of(source) == ".parquet" else _copy_lines
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".tmp")
    try:
        num_rows = copy(source, unfinished, edit)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return num_rows


def _copy_lines(source: Path, target: Path, edit: Edit) -> int:
    num_rows = 0
    with _written(target, source.suffix) as out:
        for number, line in _kept_lines(source, edit.leave_out):
            text = _with_column(line, edit.column, edit.mark(number), f"{source}, line {number}")
            out.write(f"{text}\n")
            num_rows += 1
    return num_rows


def _with_column(line: str, column: str, mark: str, where: str) -> str:
    if not column:
        return line
    if column in json.loads(line):
        raise DataError(f"{where} has a column {column!r} already: choose another name")
    body = line[:-1].rstrip()
    return f"{body}{'' if body == '{' else ', '}{json.dumps(column)}: {json.dumps(mark)}}}"


@contextmanager
def _written(path: Path, suffix: str) -> Iterator[IO[str]]:
    if suffix == ".gz":
        # No time stamp: equal rows make equal files.
        with (
            path.open("wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
            io.TextIOWrapper(packed, "utf-8", "surrogateescape", "") as out,
        ):
            yield out
    else:
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as out:
            yield out


def _copy_table(source: Path, target: Path, edit: Edit) -> int:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(source)
    schema = table.schema_arrow
    if edit.column:
        if edit.column in schema.names:
            raise DataError(f"{source} has a column {edit.column!r} already: choose another name")
        schema = schema.append(pyarrow.field(edit.column, pyarrow.string()))
        # What the datasets library noted about the columns no longer holds.
        schema = schema.with_metadata({k: v for k, v in (schema.metadata or {}).items() if k != b"huggingface"})
    number = num_rows = 0
    with pyarrow.parquet.ParquetWriter(target, schema) as writer:
        for batch in table.iter_batches():
            numbers = range(number + 1, number + 1 + batch.num_rows)
            number += batch.num_rows
            kept = [n for n in numbers if n not in edit.leave_out]
            batch = batch.filter(pyarrow.array([n not in edit.leave_out for n in numbers], pyarrow.bool_()))
            columns = list(batch.columns)
            if edit.column:
                columns.append(pyarrow.array([edit.mark(n) for n in kept], pyarrow.string()))
            writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))
            num_rows += len(kept)
    return num_rows
