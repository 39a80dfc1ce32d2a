"""Setting up says in one sentence what is missing and what to do about it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from source_tree import ROOT

TORCH = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))


def script(file: Path, body: str) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone with spaces"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/setup", folder / ".ci")
    shutil.copy(ROOT / "constraints.txt", folder)
    return folder


def sentence(clone: Path, layer: str, **environment: str) -> str:
    """What a failing layer says; exactly one line, and exit code 1."""
    done = subprocess.run(
        [".ci/setup", layer], cwd=clone, env=os.environ | environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done
    (line,) = done.stderr.splitlines()
    return line


def with_pip(clone: Path, words: str) -> None:
    """An environment whose pip says the words and fails; its Python answers where headers are."""
    (clone / "Python.h").touch()
    script(
        clone / ".venv/bin/python", f'case "$1" in -m) echo "{words}"; exit 1;; -c) pwd;; -V) echo Python 3.99;; esac'
    )


def test_a_python_that_is_not_there(clone: Path) -> None:
    assert "no-such-python is not found" in sentence(clone, "venv", PYTHON="no-such-python")


def test_a_python_that_does_not_run(clone: Path) -> None:
    python = script(clone / "python", "exit 3")
    assert "does not run" in sentence(clone, "venv", PYTHON=python)


def test_a_python_that_is_too_old(clone: Path) -> None:
    python = script(clone / "python", 'case "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac')
    said = sentence(clone, "venv", PYTHON=python)
    assert "is Python 3.9.2, which is too old: agentmath needs 3.11 or newer" in said


def test_a_python_without_venv(clone: Path) -> None:
    python = script(clone / "python", 'case "$2" in *ensurepip*) exit 1;; *) echo 3.99.0;; esac')
    assert "has no venv module" in sentence(clone, "venv", PYTHON=python)


def test_a_missing_compiler(clone: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "grep", "mkdir", "pwd"):
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    with_pip(clone, "")
    assert "no C++ compiler is found (tried c++, g++, clang++)" in sentence(clone, "torch", PATH=str(tools), CXX="")


def test_a_compiler_that_is_named_and_not_there_is_not_replaced_by_another(clone: Path) -> None:
    with_pip(clone, "")
    assert "CXX=no-such-compiler is no C++ compiler that is found" in sentence(clone, "torch", CXX="no-such-compiler")


def test_a_log_that_cannot_be_written(clone: Path) -> None:
    (clone / "build/logs/venv.log").mkdir(parents=True)
    assert "build/logs cannot be written" in sentence(clone, "venv")


def test_missing_headers(clone: Path) -> None:
    with_pip(clone, "")
    (clone / "Python.h").unlink()
    compiler = script(clone / "cxx", "")
    assert "Python.h is not in" in sentence(clone, "package", CXX=compiler)


@pytest.mark.parametrize(
    ("layer", "words", "said"),
    [
        ("torch", "WARNING: Retrying after NewConnectionError", "no network: pip cannot reach the package index"),
        ("torch", f"The user requested (constraint) {TORCH}", f"pip finds no {TORCH} for Python 3.99"),
        ("torch", "OSError: [Errno 28] No space left on device", "the disk is full while installing torch"),
        (
            "package",
            "a.cpp:3:4: error: what\nninja: build stopped",
            "building the C++ part failed: a.cpp:3:4: error: what",
        ),
        ("dev", "ERROR: something else", "installing the build tools failed: ERROR: something else"),
    ],
)
def test_what_pip_says_becomes_one_sentence_that_names_the_log(clone: Path, layer: str, words: str, said: str) -> None:
    with_pip(clone, words)
    line = sentence(clone, layer, CXX=script(clone / "cxx", ""))
    assert said in line
    log = clone / f"build/logs/{layer}.log"
    assert words.splitlines()[0] in log.read_text()
    assert str(log.relative_to(clone)) in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(clone: Path) -> None:
    clone.chmod(0o555)
    assert "cannot be written" in sentence(clone, "venv")


def test_every_dependency_that_is_pinned_is_pinned_exactly() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if line.count("==") != 1 or "+" in line] == []
    assert lines == sorted(lines, key=str.lower)
