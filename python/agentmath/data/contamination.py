"""Files searched for evaluation questions: what was found in each training file, counted for each evaluation set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentmath.core.errors import DataError
from agentmath.data.decontaminate import SEVERITY, EvaluationIndex, Match, Question, Rule, Verdict
from agentmath.data.files import Row, RowError, scan_rows
from agentmath.data.folders import source_rows
from agentmath.data.searched_text import answer_of, column_texts, id_of, question_of

MAX_PAIRS = 1000
"""Pairs of one verdict that are shown for one evaluation set; the rest is counted."""
_MAX_PLACES = 100
_ROWS_PER_REPORT = 1000
_MAX_SHOWN_CHARS = 600


@dataclass(slots=True, kw_only=True)
class EvaluationSet:
    """An evaluation file, and what was found of it so far."""

    name: str
    file: str
    questions: list[Question] = field(default_factory=list[Question])
    unreadable: list[str] = field(default_factory=list[str])
    """What was wrong with each row that could not be read."""
    rows: Counter[Verdict] = field(default_factory=Counter[Verdict])
    """Training rows by the worst verdict that a question of the set gives them."""
    found: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    """The worst verdict of every question that was found, by id."""
    pairs: dict[Verdict, list[dict[str, Any]]] = field(default_factory=dict[Verdict, list[dict[str, Any]]])
    """Those that are shown."""
    num_pairs: int = 0


@dataclass(slots=True, kw_only=True)
class FileFindings:
    """What was found in one training file."""

    file: str
    stamp: tuple[int, int]
    """Of the file as it was searched."""
    num_rows: int = 0
    """Rows that were searched."""
    verdicts: dict[int, Verdict] = field(default_factory=dict[int, Verdict])
    """The worst verdict of each flagged row, by its number in the file."""
    unsearched: set[int] = field(default_factory=set[int])
    """Numbers of rows that cannot be read or ask nothing."""
    faults: list[str] = field(default_factory=list[str])
    """What is wrong with the first hundred of them."""


def read_set(path: str, name: str) -> EvaluationSet:
    """The questions of an evaluation file. Raises DataError when no row has one."""
    found = EvaluationSet(name=name, file=path)
    taken: set[str] = set()
    for row in source_rows(path):
        text = _question(row)
        if isinstance(text, RowError) or isinstance(row, RowError):
            found.unreadable.append(str(text))
            continue
        identity = id_of(row)
        identity = row.where if identity in taken else identity
        taken.add(identity)
        found.questions.append(Question(set_name=name, id=identity, text=text, answer=answer_of(row)))
    if not found.questions:
        raise DataError(f"{path} holds no question: {found.unreadable[0]}")
    return found


def search_file(
    path: str,
    index: EvaluationIndex,
    sets: Mapping[str, EvaluationSet],
    *,
    columns: Sequence[str] = (),
    on_rows: Callable[[int], object] = lambda count: None,
) -> FileFindings:
    """Search a training file row by row, and add what is found to the sets, which are those of the index, by name.

    columns: searched beside the question; on_rows hears of every 1,000 rows. Raises DataError when nothing in the file
    can be searched, or a column is in no row.
    """
    found = FileFindings(file=path, stamp=stamp_of(path))
    missing = set(columns)
    for count, row in enumerate(scan_rows(path), start=1):
        if not count % _ROWS_PER_REPORT:
            on_rows(_ROWS_PER_REPORT)
        question = _question(row)
        if isinstance(question, RowError) or isinstance(row, RowError):
            found.unsearched.add(row.number)
            if len(found.faults) < _MAX_PLACES:
                found.faults.append(str(question))
            continue
        found.num_rows += 1
        more = column_texts(row, columns)
        missing -= more.keys()
        matches = _matches([question, *more.values()], answer_of(row), index)
        if matches:
            found.verdicts[row.number] = min((m.verdict for m in matches), key=SEVERITY.index)
            _count(matches, row, question, sets)
    if not found.num_rows:
        raise DataError(f"{path} holds no question to search: {found.faults[0]}")
    if missing:
        raise DataError(f"{path}: no row has a column {min(missing)!r} to search: check the name")
    return found


def _question(row: Row | RowError) -> str | RowError:
    try:
        return row if isinstance(row, RowError) else question_of(row)
    except RowError as fault:
        return fault


def stamp_of(path: str) -> tuple[int, int]:
    """What changes when a file is written to: its size and time."""
    try:
        facts = Path(path).expanduser().stat()
    except OSError:
        return (0, 0)
    return (facts.st_size, facts.st_mtime_ns)


def _matches(texts: Sequence[str], answer: str | None, index: EvaluationIndex) -> list[Match]:
    """One match a question: the worst of all texts of a row."""
    worst: dict[tuple[str, str], Match] = {}
    for text in texts:
        for match in index.match(text, answer):
            key = (match.question.set_name, match.question.id)
            if key not in worst or SEVERITY.index(match.verdict) < SEVERITY.index(worst[key].verdict):
                worst[key] = match
    return list(worst.values())


def _count(matches: Sequence[Match], row: Row, text: str, sets: Mapping[str, EvaluationSet]) -> None:
    worst: dict[str, Verdict] = {}
    for match in sorted(matches, key=lambda m: SEVERITY.index(m.verdict)):
        asked, verdict = match.question, match.verdict
        worst.setdefault(asked.set_name, verdict)
        member = sets[asked.set_name]
        member.found[asked.id] = min(member.found.get(asked.id, verdict), verdict, key=SEVERITY.index)
        member.num_pairs += 1
        shown = member.pairs.setdefault(verdict, [])
        if len(shown) < MAX_PAIRS:
            shown.append(_pair(match, row, text))
    for name, verdict in worst.items():
        sets[name].rows[verdict] += 1


def _pair(match: Match, row: Row, text: str) -> dict[str, Any]:
    return {
        "verdict": match.verdict,
        "reason": match.reason,
        "set": match.question.set_name,
        "question_id": match.question.id,
        "train_id": id_of(row),
        "train_place": row.where,
        "share": match.share,
        "weighted_share": match.weighted_share,
        "question": _shortened(match.question.text),
        "train": _shortened(text),
        "passage": _shortened(match.passage),
    }


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]} ... ({len(text)} characters)"


def report(rule: Rule, files: Sequence[FileFindings], sets: Sequence[EvaluationSet]) -> dict[str, Any]:
    """The report of a search, ready for JSON."""
    return {
        "rule": asdict(rule),
        "train": [
            {
                "file": found.file,
                "rows": found.num_rows,
                **_tally(Counter(found.verdicts.values())),
                "unsearched": len(found.unsearched),
                "faults": found.faults,
            }
            for found in files
        ],
        "evaluation": [
            {
                "set": member.name,
                "file": member.file,
                "questions": len(member.questions),
                "unreadable": len(member.unreadable),
                "faults": member.unreadable[:_MAX_PLACES],
                "rows": _tally(member.rows),
                "questions_found": _tally(Counter(member.found.values())),
                "pairs_not_shown": member.num_pairs - sum(map(len, member.pairs.values())),
            }
            for member in sets
        ],
        "pairs": [pair for verdict in SEVERITY for member in sets for pair in member.pairs.get(verdict, ())],
    }


def _tally(counts: Counter[Verdict]) -> dict[str, int]:
    return {"flagged": sum(counts.values()), **{str(verdict): counts[verdict] for verdict in SEVERITY}}


def set_names(paths: Sequence[str]) -> list[str]:
    """Short names for evaluation files: the file's without its suffix, the whole path where two would be alike."""
    short = [Path(path).name.split(".")[0] or path for path in paths]
    return [name if short.count(name) == 1 else path for name, path in zip(short, paths, strict=True)]
