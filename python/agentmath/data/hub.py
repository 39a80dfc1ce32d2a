"""Datasets of the Hugging Face hub, through its datasets library: the only file that imports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentmath.core.errors import DataError
from agentmath.data.files import Row


def hub_rows(name: str, *, split: str = "", subset: str = "") -> Iterator[Row]:
    """Rows of a dataset "owner/name", fetched once and then kept by the library. Raises DataError.

    How long the library waits for the network, and how often it asks again, is its own setting (HF_HUB_*).
    """
    nowhere = f"there is no file or folder {name}"
    try:
        import datasets
    except ImportError as fault:
        raise DataError(
            f"{nowhere}; to read a dataset of that name from the hub, install the datasets library: "
            "pip install 'agentmath[hub]'"
        ) from fault
    try:
        splits: list[str] = datasets.get_dataset_split_names(name, subset or None)
        chosen = split or (splits[0] if len(splits) == 1 else "")
        rows: Any = datasets.load_dataset(name, subset or None, split=chosen) if chosen in splits else None
    except ConnectionError as fault:
        raise DataError(f"{nowhere}, and the hub, where {name} may be a dataset, cannot be reached: {fault}") from fault
    # The library hands on whatever the network, the dataset's files or their formats raise.
    except Exception as fault:
        raise DataError(f"{nowhere}, and dataset {name} cannot be loaded from the hub: {fault}") from fault
    if rows is None:
        said = f"no split {split!r}" if split else "several splits"
        raise DataError(f"dataset {name} has {said}: say which by split: {', '.join(splits)}")
    for number, cells in enumerate(rows, start=1):
        yield Row(dict(cells), f"{name} ({chosen}), row {number}", number)
