"""Which files a data source's path means: one file, a folder of them, or a dataset of the hub.

Folders come in two forms: files whose names or folders say the split ("data/train-00000-of-00002.parquet",
"main/test.jsonl"), and what the datasets library's save_to_disk leaves (Arrow streams beside a state.json). Several
files of one split are one source, in the order of their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from agentmath.core.errors import DataError
from agentmath.data.files import SUFFIXES, Row, RowError, scan_rows
from agentmath.data.hub import hub_rows

_SPLITS = ("train", "test", "validation", "valid", "val", "dev", "eval")
_NO_ROWS = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def source_rows(path: str, *, split: str = "", subset: str = "") -> Iterator[Row | RowError]:
    """Rows of all files that are meant, numbered through; a RowError in the place of each row that is none.

    split and subset choose among the files of a folder, or of a dataset of the hub ("owner/name"). Raises DataError.
    """
    place = Path(path).expanduser()
    if not place.exists() and _HUB_NAME.fullmatch(path) and not path.endswith(SUFFIXES):
        yield from hub_rows(path, split=split, subset=subset)
        return
    offset = number = 0
    for file in source_files(path, split=split, subset=subset):
        for row in scan_rows(file):
            row.number += offset
            number = row.number
            yield row
        offset = number


def source_files(path: str, *, split: str = "", subset: str = "") -> list[str]:
    """Names of the files that are meant, in order. Raises DataError when a folder leaves open which, or has none."""
    place = Path(path).expanduser()
    if not place.is_dir():
        if split or subset:
            raise DataError(f"{path} is not a folder: split and subset choose among the files of one; leave them out")
        return [path]
    files = [file for file in sorted(place.rglob("*")) if _is_data(file, place)]
    if not files:
        raise DataError(f"{path} is a folder without data files: expected files that end in {', '.join(SUFFIXES)}")
    words = {file: _words(file, place) for file in files}
    for wanted, key in ((subset, "subset"), (split, "split")):
        named = [file for file in files if wanted.casefold() in words[file]]
        if wanted and not named:
            raise DataError(f"{path}: no file in it belongs to {key} {wanted!r}: it holds {_listed(files, place)}")
        files = named if wanted else files
    if not split:
        found = {file: words[file].intersection(_SPLITS) for file in files}
        if any(named != found[files[0]] for named in found.values()):
            raise DataError(f"{path} holds files of several splits: say which by split: {_listed(files, place)}")
    folders = sorted({str(file.parent.relative_to(place)) for file in files})
    if len(folders) > 1 and not subset:
        shown = ", ".join(folders[:8])
        raise DataError(f"{path} holds several folders of data: say which by subset, or name it as path: {shown}")
    return [str(Path(path) / file.relative_to(place)) for file in _in_order(files)]


def _is_data(file: Path, place: Path) -> bool:
    parts = file.relative_to(place).parts
    is_hidden = any(part.startswith((".", "_")) for part in parts)
    return file.name.endswith(SUFFIXES) and not is_hidden and file.name not in _NO_ROWS and file.is_file()


def _words(file: Path, place: Path) -> set[str]:
    """What the name of a file and the folders above it say: whole names, and the words they are made of."""
    parts = [*file.relative_to(place).parts[:-1], file.name.partition(".")[0]]
    return {word for part in parts for word in (part.casefold(), *re.split(r"[^a-z0-9]+", part.casefold())) if word}


def _in_order(files: list[Path]) -> list[Path]:
    """Files by name, those of a saved dataset as its state.json lists them."""
    state = files[0].with_name("state.json")
    if len({file.parent for file in files}) > 1 or not state.exists():
        return files
    try:
        listed = [entry["filename"] for entry in json.loads(state.read_text("utf-8"))["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise DataError(f"{state} is not what the datasets library writes: {fault}") from fault
    by_name = {file.name: file for file in files}
    missing = [name for name in listed if name not in by_name]
    if missing:
        raise DataError(f"{state.parent} lacks {missing[0]}, which its state.json lists: copy the whole folder")
    return [by_name[name] for name in listed]


def _listed(files: list[Path], place: Path) -> str:
    names = [str(file.relative_to(place)) for file in files]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
