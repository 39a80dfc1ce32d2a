"""Rows of data files: JSONL, JSONL.gz, JSON and parquet, one dictionary a row, with the place it stood at.

Every fault is a DataError that names the file and the line.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import IO, Any

from agentmath.core.errors import DataError

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class Row:
    """One row and where it stands."""

    cells: dict[str, Any]
    where: str
    """"FILE, line 7" or "FILE, row 7", counted from 1."""
    number: int

    def find(self, names: tuple[str, ...]) -> str | None:
        """The first of the column names that the row has, without regard to case."""
        by_name = {key.casefold(): key for key in self.cells}
        return next((by_name[name] for name in names if name in by_name), None)

    def cell(self, names: tuple[str, ...], meaning: str) -> Any:
        """The cell under one of the names. Raises DataError when there is no such column or it is null."""
        key = self.find(names)
        if key is None:
            raise DataError(
                f"{self.where}: no {meaning}: expected a column {_either(names)}, found {_listed(self.cells)}"
            )
        if self.cells[key] is None:
            raise DataError(f"{self.where}, column {key!r}: expected the {meaning}, found null")
        return self.cells[key]

    def text(self, names: tuple[str, ...], meaning: str) -> str:
        """Non-empty text of a cell; whole numbers become text. Raises DataError."""
        value = self.cell(names, meaning)
        key = self.find(names)
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and isfinite(value):
            value = str(value)
        if not isinstance(value, str):
            raise DataError(f"{self.where}, column {key!r}: expected text or a number, found {_described(value)}")
        if not value.strip():
            raise DataError(f"{self.where}, column {key!r}: expected the {meaning}, found empty text")
        if not value.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in value):
            raise DataError(
                f"{self.where}, column {key!r}: half of a surrogate pair, which is no character: mend the file"
            )
        return value.strip()


def read_rows(path: str) -> Iterator[Row]:
    """Rows of a file in order; blank lines are passed over. Raises DataError."""
    file = Path(path).expanduser()
    if file.is_dir():
        raise DataError(f"{path} is a folder: name one of the files in it ({', '.join(SUFFIXES)})")
    if not file.exists():
        raise DataError(f"{path} does not exist: check the path, relative paths start at {Path.cwd()}")
    if not file.name.endswith(SUFFIXES):
        raise DataError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    rows = _parquet_rows(file, path) if file.suffix == ".parquet" else _json_rows(file, path)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise DataError(f"{path} is empty: expected at least one row")


def _json_rows(file: Path, path: str) -> Iterator[Row]:
    try:
        with _opened(file) as stream:
            start = _first_sign(stream)
            is_lines = ".jsonl" in file.name or start == "{"
            yield from _line_rows(stream, path) if is_lines else _array_rows(stream, path)
    except UnicodeDecodeError as fault:
        raise DataError(f"{path} is not UTF-8 text: byte {fault.object[fault.start]:#x}; convert it first") from fault
    except (EOFError, zlib.error, OSError) as fault:
        raise DataError(f"{path} cannot be read: {fault}") from fault


def _opened(file: Path) -> IO[str]:
    opener = gzip.open if file.suffix == ".gz" else open
    return opener(file, "rt", encoding="utf-8-sig", newline=None)


def _first_sign(stream: IO[str]) -> str:
    """The first sign that is not blank; the stream is put back to its beginning."""
    sign = ""
    while not sign.strip():
        sign = stream.read(1)
        if not sign:
            break
    stream.seek(0)
    return sign


def _line_rows(stream: IO[str], path: str) -> Iterator[Row]:
    for number, line in enumerate(stream, start=1):
        if line.strip():
            yield _row(_parsed(line.strip(), f"{path}, line {number}"), f"{path}, line {number}", number)


def _array_rows(stream: IO[str], path: str) -> Iterator[Row]:
    text = stream.read()
    if not text.strip():
        return
    content = _parsed(text, path)
    if not isinstance(content, list):
        raise DataError(f"{path}: expected a list of rows [{{...}}, ...], found {_described(content)}")
    for number, cells in enumerate(content, start=1):
        yield _row(cells, f"{path}, row {number}", number)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno} column {fault.colno}" if fault.lineno > 1 else f"column {fault.colno}"
        raise DataError(f"{where}: not JSON at {place} ({fault.msg}): expected one object {{...}} a row") from fault
    except (RecursionError, ValueError) as fault:
        raise DataError(f"{where}: JSON that cannot be read: {fault}") from fault


def _parquet_rows(file: Path, path: str) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(file)
        number = 0
        for batch in table.iter_batches():
            for cells in batch.to_pylist():
                number += 1
                yield _row(cells, f"{path}, row {number}", number)
    except (pyarrow.ArrowException, OSError) as fault:
        raise DataError(f"{path} cannot be read as parquet: {fault}") from fault


def _row(cells: Any, where: str, number: int) -> Row:
    if not isinstance(cells, dict):
        raise DataError(f"{where}: expected an object with columns {{...}}, found {_described(cells)}")
    return Row(cells, where, number)


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(repr(n) for n in names)


def _listed(cells: dict[str, Any]) -> str:
    return ", ".join(repr(k) for k in list(cells)[:20]) or "none"


def _described(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), f"{value!r}"[:40])
