"""What agentmath decontaminate does: search training files for evaluation questions; drop or mark what is found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmath.cli.errors import warn
from agentmath.core.errors import ConfigError, DataError
from agentmath.data.contamination import (
    FileFindings,
    read_set,
    report,
    search_file,
    set_names,
    stamp_of,
)
from agentmath.data.decontaminate import EvaluationIndex, Rule, Verdict
from agentmath.data.rewriting import Edit, format_of, num_lines, rewrite
from agentmath.telemetry.run_dir import write_atomically
from agentmath.telemetry.words import printable

CLEAN = "clean"
_SHOWN_PAIRS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for."""

    train: Sequence[str]
    against: Sequence[str]
    rule: Rule
    columns: Sequence[str] = ()
    """Columns to search beside the question."""
    drop: bool = False
    drop_variants: bool = False
    mark: bool = False
    mark_column: str = "contamination"
    output: Path | None = None
    report: Path | None = None


def run(request: Request) -> None:
    """Search, write what was asked for, print a table. Raises ConfigError or DataError."""
    _check(request)
    targets = _targets(request)
    report_file = request.report.expanduser() if request.report is not None else None
    _refuse_inputs(request, [*targets, *([report_file] if report_file is not None else [])])
    names = set_names(request.against)
    sets = {name: read_set(path, name) for path, name in zip(request.against, names, strict=True)}
    index = EvaluationIndex([question for member in sets.values() for question in member.questions], request.rule)
    files: list[FileFindings] = []
    for path in request.train:
        with _progress(path) as on_rows:
            files.append(search_file(path, index, sets, columns=request.columns, on_rows=on_rows))
    content = report(request.rule, files, list(sets.values()))
    warn(map(printable, _warnings(content)))
    if report_file is not None:
        report_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(report_file, json.dumps(content, indent=1) + "\n")
    _print(content)
    for found, target in zip(files, targets, strict=False):
        _write(request, found, target)


def _check(request: Request) -> None:
    """Raise ConfigError for options that contradict each other."""
    for files in (request.train, request.against):
        if repeated := [path for path in files if files.count(path) > 1]:
            raise ConfigError(f"{repeated[0]} is named twice: name each file once")
    if request.drop and request.mark:
        raise ConfigError("--drop and --mark exclude each other: one leaves rows out, the other keeps them all")
    if (request.drop or request.mark) != (request.output is not None):
        raise ConfigError("--output goes with --drop or --mark: give one of them and what to write, or neither")
    if request.drop_variants and not request.drop:
        raise ConfigError("--drop-variants goes with --drop")
    if request.mark and not request.mark_column:
        raise ConfigError("--mark-column: a column needs a name")


def _targets(request: Request) -> list[Path]:
    """Where each training file is written to; none when nothing is to be written. Raises ConfigError."""
    if request.output is None:
        return []
    output = request.output.expanduser()
    if len(request.train) == 1:
        targets = [output]
    elif output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output} is a file: several training files need a folder")
    else:
        targets = [output / Path(path).name for path in request.train]
        if len(set(targets)) < len(targets):
            raise ConfigError("two training files have one name: write them one at a time")
    for path, target in zip(request.train, targets, strict=True):
        suffix = format_of(Path(path))
        if target.is_dir() or not target.name.endswith(suffix):
            raise ConfigError(f"--output {target}: expected a file that ends in {suffix}, as {path} does")
    return targets


def _refuse_inputs(request: Request, written: Sequence[Path]) -> None:
    """Raise ConfigError when a file would be written that is also read, or written twice."""
    read = [path for name in (*request.train, *request.against) if (path := Path(name).expanduser()).exists()]
    for path in written:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder: name a file to write")
        if any(_is_or_holds(other, path) for other in read):
            raise ConfigError(f"{path} is read and cannot be written too: name another file")
    if len({path.absolute() for path in written}) < len(written):
        raise ConfigError("--output and --report name one file: name two")


def _is_or_holds(read: Path, written: Path) -> bool:
    """True for one file under any name, and for a file in a folder that is read."""
    return written.resolve().is_relative_to(read.resolve()) or (written.exists() and written.samefile(read))


def _write(request: Request, found: FileFindings, target: Path) -> None:
    """Write one training file anew; rows that could not be searched are left out, as nobody can call them clean."""
    if stamp_of(found.file) != found.stamp:
        raise DataError(f"{found.file} was changed while it was searched: nothing was written; run again")
    left_out = set(found.unsearched)
    if request.drop:
        dropped = {Verdict.CONTAMINATED, *([Verdict.VARIANT] if request.drop_variants else [])}
        left_out |= {number for number, verdict in found.verdicts.items() if verdict in dropped}
        edit = Edit(leave_out=left_out)
    else:
        edit = Edit(leave_out=left_out, column=request.mark_column, mark=lambda n: found.verdicts.get(n, CLEAN))
    if len(left_out) == found.num_rows + len(found.unsearched):
        raise DataError(f"{found.file}: no row is left, so {target} was not written")
    print(f"{target}: {rewrite(Path(found.file).expanduser(), target, edit):,} rows")


def _warnings(content: dict[str, Any]) -> Iterator[str]:
    for found in content["train"]:
        if found["unsearched"]:
            yield f"{found['file']}: {found['unsearched']} rows could not be searched, the first: {found['faults'][0]}"
        if found["contaminated"] == found["rows"]:
            yield f"{found['file']}: every row is contaminated: this is evaluation data, not training data"
    for found in content["evaluation"]:
        if found["unreadable"]:
            yield f"{found['file']}: {found['unreadable']} rows hold no question, the first: {found['faults'][0]}"


def _print(content: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("evaluation set")
    for name in ("questions", "leaked", "flagged", *Verdict):
        table.add_column(name, justify="right")
    for found in content["evaluation"]:
        rows = found["rows"]
        counts = (found["questions"], found["questions_found"]["contaminated"], rows["flagged"])
        verdicts = (rows[str(verdict)] for verdict in Verdict)
        table.add_row(Text(printable(found["set"])), *(f"{count:,}" for count in (*counts, *verdicts)))
    for found in content["train"]:
        console.print(Text(printable(f"{found['file']}: {found['rows']:,} rows searched")), soft_wrap=True)
    console.print(table)
    console.print("leaked: questions that a training row holds; the columns behind it: training rows", soft_wrap=True)
    shown = [pair for pair in content["pairs"] if pair["verdict"] == Verdict.CONTAMINATED]
    for pair in shown[:_SHOWN_PAIRS]:
        line = f"  {pair['train_id']} holds {pair['set']} {pair['question_id']} ({pair['reason']}, {pair['share']:.2f})"
        console.print(Text(printable(line)), soft_wrap=True)
    if len(shown) > _SHOWN_PAIRS:
        console.print(f"  and {len(shown) - _SHOWN_PAIRS} more pairs")


@contextmanager
def _progress(path: str) -> Iterator[Callable[[int], object]]:
    """A bar with the time left, on a terminal only; it is told of rows by their number."""
    if not (sys.stderr.isatty() and Path(path).expanduser().is_file()):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(Path(path).name, total=None)
        bar.update(task, total=num_lines(path))
        yield lambda count: bar.advance(task, count)
