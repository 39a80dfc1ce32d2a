"""What the pages of docs/ show is what happens: their examples are run.

A block "python" with >>> is a doctest; a block "console" holds "$ command" lines and what they print ("..." stands for
anything); a block "jsonl FILE" (or json, toml, python FILE) is a file of that name. Blocks of one page share a folder.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)(?: +(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Command:
    """One line behind a "$ " and what it must print."""

    line: str
    printed: str


def commands(block: str) -> list[Command]:
    """The commands of a console block with the lines below each."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not parts[0].strip(), f"a console block begins with '$ ': {parts[0]!r}"
    return [Command(line, printed) for line, _, printed in (part.partition("\n") for part in parts[1:])]


def run_shown(command: Command, folder: Path) -> None:
    """Run a command and compare what it prints."""
    line = re.sub(r"\bagentmath(?= )", shlex.join([sys.executable, "-m", "agentmath"]), command.line, count=1)
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "NO_COLOR": "1"},
    )
    same = doctest.OutputChecker().check_output(command.printed, done.stdout, _FLAGS)
    assert same, f"$ {command.line}\nis shown to print\n{command.printed}\nand prints\n{done.stdout}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_examples_do_what_they_show(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for kind, file, block in _BLOCK.findall(page.read_text("utf-8")):
        if file:
            (tmp_path / file).write_text(block, "utf-8")
        elif kind == "console":
            for command in commands(block):
                run_shown(command, tmp_path)
        elif kind == "python" and ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
            runner = doctest.DocTestRunner(optionflags=_FLAGS)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            assert runner.failures == 0, "".join(report)
            names.update(test.globs)
