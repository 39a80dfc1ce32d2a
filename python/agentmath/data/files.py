"""Rows of data files: JSONL, JSON, both also as .gz, parquet and Arrow streams, one dictionary a row, with its place.

What is wrong with one row is a RowError, which leaves the rest of the file readable; what is wrong with a file is a
DataError. Both name the file, a RowError its line too. Rows are read as they are asked for: memory does not grow with
the file, but for a .json that holds one list.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import IO, Any

from agentmath.core.errors import DataError

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet", ".arrow")
MAX_LINE_CHARS = 64 << 20
"""A longer line is no row: a file without line ends would fill the memory."""
_MAX_LIST_CHARS = 1 << 30
_ROWS_PER_BATCH = 1024
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_EXACT_FLOAT = 2**53


class Fault(StrEnum):
    """What can be wrong with a row, for counts."""

    NOT_TEXT = "not UTF-8"
    NOT_JSON = "not JSON"
    NOT_A_ROW = "not an object"
    NO_COLUMN = "missing column"
    NULL = "null"
    EMPTY = "empty"
    WRONG_TYPE = "wrong type"
    TOO_LONG = "too long"
    NO_ANSWER = "no answer in it"


class RowError(DataError):
    """One row cannot be used; the rows behind it can."""

    def __init__(self, fault: Fault, words: str, *, number: int = 0) -> None:
        """number: the row's, counted from 1."""
        super().__init__(words)
        self.fault = fault
        self.number = number


@dataclass(slots=True)
class Row:
    """One row and where it stands."""

    cells: dict[str, Any]
    where: str
    """"FILE, line 7" or "FILE, row 7", counted from 1."""
    number: int
    columns: dict[str, str] = field(init=False, repr=False, compare=False)
    """Names of the columns by their names in small letters."""

    def __post_init__(self) -> None:
        self.columns = {key.casefold(): key for key in self.cells}

    def find(self, names: tuple[str, ...]) -> str | None:
        """The first of the column names that the row has, without regard to case."""
        for name in names:
            if name in self.columns:
                return self.columns[name]
        return None

    def value(self, names: tuple[str, ...]) -> Any:
        """The cell under the first of the names that the row has; None where there is none."""
        key = self.find(names)
        return None if key is None else self.cells[key]

    def cell(self, names: tuple[str, ...], meaning: str) -> Any:
        """The cell under one of the names. Raises RowError when there is no such column or it is null."""
        key = self.find(names)
        if key is None:
            found = ", ".join(map(repr, list(self.cells)[:20])) or "none"
            raise self.error(
                Fault.NO_COLUMN, f": no {meaning}: expected a column {' or '.join(map(repr, names))}, found {found}"
            )
        if self.cells[key] is None:
            raise self.error(Fault.NULL, f", column {key!r}: expected the {meaning}, found null")
        return self.cells[key]

    def text(self, names: tuple[str, ...], meaning: str) -> str:
        """Non-empty text of a cell; numbers become text, and a list of one is taken for what it holds.

        Raises RowError.
        """
        value = self.cell(names, meaning)
        if isinstance(value, str) and value.isascii() and (text := value.strip()):
            return text
        key = self.find(names)
        if isinstance(value, list):
            if len(value) != 1:
                raise self.error(
                    Fault.WRONG_TYPE,
                    f", column {key!r}: expected text or a number, found a list of {len(value)}: write it as one text",
                )
            value = value[0]
        if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT_FLOAT:
            value = int(value)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and isfinite(value):
            return str(value)
        if not isinstance(value, str):
            raise self.error(Fault.WRONG_TYPE, f", column {key!r}: expected text or a number, found {described(value)}")
        text = value.strip()
        if not text:
            raise self.error(Fault.EMPTY, f", column {key!r}: expected the {meaning}, found empty text")
        if not text.isascii() and _SURROGATE.search(text):
            raise self.error(
                Fault.NOT_TEXT, f", column {key!r}: half of a surrogate pair, which is no character: mend the file"
            )
        return text

    def error(self, fault: Fault, words: str) -> RowError:
        """A fault of this row; words follow the place."""
        return RowError(fault, f"{self.where}{words}", number=self.number)


def read_rows(path: str) -> Iterator[Row]:
    """Rows of a file in order; blank lines are passed over. Raises DataError at the first fault."""
    for row in scan_rows(path):
        if isinstance(row, RowError):
            raise row
        yield row


def scan_rows(path: str) -> Iterator[Row | RowError]:
    """Rows of a file in order, a RowError in the place of each that is none. Raises DataError for the file itself."""
    file = Path(path).expanduser()
    if file.is_dir():
        raise DataError(f"{path} is a folder: name one of the files in it ({', '.join(SUFFIXES)})")
    if not file.exists():
        raise DataError(f"{path} does not exist: check the path, relative paths start at {Path.cwd()}")
    if not file.name.endswith(SUFFIXES):
        raise DataError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    rows = _table_rows(file, path) if file.suffix in (".parquet", ".arrow") else _json_rows(file, path)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise DataError(f"{path} is empty: expected at least one row")


def _json_rows(file: Path, path: str) -> Iterator[Row | RowError]:
    opener = gzip.open if file.suffix == ".gz" else open
    try:
        # Bytes that are no UTF-8 are kept as surrogates until the line they stand in is known.
        with opener(file, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=None) as stream:
            is_lines = ".jsonl" in file.name or _holds_lines(stream)
            yield from _line_rows(stream, path) if is_lines else _list_rows(stream, path)
    except (EOFError, zlib.error, OSError) as fault:
        raise DataError(f"{path} cannot be read: {fault}") from fault


def _holds_lines(stream: IO[str]) -> bool:
    """Whether a .json holds a row a line, and not one list, bare or in an object; the stream is put back."""
    line = "\n"
    while line.isspace():
        line = stream.readline(MAX_LINE_CHARS)
    stream.seek(0)
    if not line.lstrip().startswith("{"):
        return False
    try:
        return len(json.loads(line)) > 1
    except (ValueError, RecursionError):
        return False


def _line_rows(stream: IO[str], path: str) -> Iterator[Row | RowError]:
    number = 0
    is_rest = False
    while line := stream.readline(MAX_LINE_CHARS):
        number += not is_rest
        is_whole = len(line) < MAX_LINE_CHARS or line.endswith("\n")
        if is_whole and not is_rest and not line.isspace():
            yield _parsed_row(line.rstrip(), f"{path}, line {number}", number)
        elif not is_whole and not is_rest:
            words = f"{path}, line {number}: longer than {MAX_LINE_CHARS:,} characters: expected one object a line"
            yield RowError(Fault.TOO_LONG, words, number=number)
        is_rest = not is_whole


def _parsed_row(line: str, where: str, number: int) -> Row | RowError:
    try:
        return _row(_parsed(line, where), where, number)
    except RowError as error:
        error.number = number
        return error


def _list_rows(stream: IO[str], path: str) -> Iterator[Row | RowError]:
    text = stream.read(_MAX_LIST_CHARS)
    if len(text) == _MAX_LIST_CHARS:
        raise DataError(f"{path}: a list of more than {_MAX_LIST_CHARS:,} characters: write it as .jsonl, a row a line")
    if not text.strip():
        return
    try:
        content = _parsed(text, path)
    except RowError as error:
        raise DataError(str(error)) from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else content
    if not isinstance(content, list):
        raise DataError(f"{path}: expected a list of rows [{{...}}, ...] or a row a line, found {described(content)}")
    for number, cells in enumerate(content, start=1):
        yield _row(cells, f"{path}, row {number}", number)


def _parsed(text: str, where: str) -> Any:
    if not text.isascii() and (broken := _SURROGATE.search(text)):
        byte = ord(broken.group()) - 0xDC00
        raise RowError(Fault.NOT_TEXT, f"{where}: not UTF-8 text: byte {byte:#x}; convert the file first")
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        place = f"line {fault.lineno} column {fault.colno}" if fault.lineno > 1 else f"column {fault.colno}"
        raise RowError(
            Fault.NOT_JSON, f"{where}: not JSON at {place} ({fault.msg}): expected one object {{...}} a row"
        ) from fault
    except (RecursionError, ValueError) as fault:
        raise RowError(Fault.NOT_JSON, f"{where}: JSON that cannot be read: {fault}") from fault


def _table_rows(file: Path, path: str) -> Iterator[Row | RowError]:
    import pyarrow

    kind = file.suffix.removeprefix(".")
    try:
        number = 0
        for batch in _parquet_batches(file) if kind == "parquet" else _arrow_batches(file):
            for cells in batch.to_pylist():
                number += 1
                yield _row(cells, f"{path}, row {number}", number)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as fault:
        raise DataError(f"{path} cannot be read as {kind}: {fault}") from fault


def _parquet_batches(file: Path) -> Iterator[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        yield from table.iter_batches(_ROWS_PER_BATCH)


def _arrow_batches(file: Path) -> Iterator[Any]:
    """Batches of the stream format, which the datasets library keeps on disk."""
    import pyarrow.ipc

    with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as stream:
        for batch in stream:
            for start in range(0, batch.num_rows, _ROWS_PER_BATCH):
                yield batch.slice(start, _ROWS_PER_BATCH)


def _row(cells: Any, where: str, number: int) -> Row | RowError:
    if not isinstance(cells, dict):
        words = f"{where}: expected an object with columns {{...}}, found {described(cells)}"
        return RowError(Fault.NOT_A_ROW, words, number=number)
    return Row(cells, where, number)


def described(value: Any) -> str:
    """A value in few words, for what was found in the place of what was expected."""
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), f"{value!r}"[:40])
