from __future__ import annotations

import os
from pathlib import Path

from agentmath.sandbox.isolation import remove_tree


def test_a_tree_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(700):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(str(top))
    assert list(tmp_path.iterdir()) == []


def test_removal_follows_no_link(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("precious")
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(kept)
    (top / "0").mkdir()
    (top / "0" / "link").symlink_to(kept / "file")
    remove_tree(str(top))
    assert (kept / "file").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def test_names_and_modes_of_all_kinds_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for name in [b"new\nline", b"\xff\xfe", b"n" * 255, b"1"]:
        os.mkdir(os.path.join(os.fsencode(top), name))
        with open(os.path.join(os.fsencode(top), name, b"file"), "w"):
            pass
    os.mkfifo(top / "fifo")
    (top / "closed").mkdir(mode=0)
    remove_tree(str(top))
    assert list(tmp_path.iterdir()) == []
