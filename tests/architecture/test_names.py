"""No drawers for odds and ends, and nothing that shadows a package."""

from __future__ import annotations

from pathlib import Path

from source_tree import ROOT, files, relative

FORBIDDEN = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"}
EXCEPTIONS = {"bench/common.py"}
TOP = [
    ROOT / name
    for name in ("Makefile", "CMakeLists.txt", "CMakePresets.json", "pyproject.toml", ".ci/run", ".ci/setup")
]


def words(path: Path) -> set[str]:
    names = [*path.relative_to(ROOT).parent.parts, path.stem]
    return {word for name in names for word in name.lower().split("_")}


def test_a_name_says_what_is_inside() -> None:
    named = [path for path in files(".py", ".cpp", ".h", ".cu", ".toml") if relative(path) not in EXCEPTIONS]
    assert [relative(path) for path in named if words(path) & FORBIDDEN] == []


def test_sources_are_ascii() -> None:
    paths = [*files(".py", ".cpp", ".h", ".cu", ".toml", ".sh", ".txt", ".cmake"), *filter(Path.is_file, TOP)]
    lines = [(relative(path), n, line) for path in paths for n, line in enumerate(path.read_bytes().splitlines(), 1)]
    assert [(name, number) for name, number, line in lines if not line.isascii()] == []


def test_folders_that_are_no_packages_hold_no_init() -> None:
    found = [*(ROOT / "tests").rglob("__init__.py"), *(ROOT / "bench").rglob("__init__.py")]
    assert found == []
    assert not (ROOT / "kernels/__init__.py").exists()


def test_unit_tests_mirror_the_rooms() -> None:
    rooms = {path.name for path in (ROOT / "python/agentmath").iterdir() if path.is_dir()}
    folders = {path.name for path in (ROOT / "tests/unit").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders <= rooms
