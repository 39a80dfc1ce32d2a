"""The hub itself is not asked: a small library in the place of datasets answers."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from agentmath.core.errors import DataError
from agentmath.data.files import Row
from agentmath.data.folders import source_rows

ROWS = [{"question": "1+1?", "answer": "#### 2"}, {"question": "2+2?", "answer": "#### 4"}]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A library whose datasets have the splits train and test, or, named own/single, only one."""
    library = ModuleType("datasets")

    def splits(name: str, subset: str | None) -> list[str]:
        if name == "own/away":
            raise ConnectionError("no route")
        if name == "own/private":
            raise FileNotFoundError("may not be read")
        return ["train"] if name == "own/single" else ["train", "test"]

    def load(name: str, subset: str | None, split: str) -> list[dict[str, str]]:
        return [{**row, "question": f"{row['question']} {subset} {split}"} for row in ROWS]

    monkeypatch.setattr(library, "get_dataset_split_names", splits, raising=False)
    monkeypatch.setattr(library, "load_dataset", load, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", library)
    return library


@pytest.mark.usefixtures("hub")
def test_a_name_that_is_no_path_is_a_dataset_of_the_hub() -> None:
    found = list(source_rows("own/maths", split="test", subset="main"))
    assert [row.cells["question"] for row in found if isinstance(row, Row)] == ["1+1? main test", "2+2? main test"]
    assert [row.where for row in found if isinstance(row, Row)][1] == "own/maths (test), row 2"
    assert len(list(source_rows("own/single"))) == 2


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("name", "split", "says"),
    [
        ("own/maths", "", "dataset own/maths has several splits: say which by split: train, test"),
        ("own/maths", "dev", "dataset own/maths has no split 'dev': say which by split: train, test"),
        ("own/away", "", "there is no file or folder own/away, and the hub, .*, cannot be reached: no route"),
        ("own/private", "", "dataset own/private cannot be loaded from the hub: may not be read"),
    ],
)
def test_what_the_hub_does_not_give_is_told_in_one_sentence(name: str, split: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        list(source_rows(name, split=split))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"there is no file or folder own/maths; .*pip install 'agentmath\[hub\]'"):
        list(source_rows("own/maths"))
