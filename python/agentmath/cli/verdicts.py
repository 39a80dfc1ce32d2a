"""Verdicts on frameworks that answered the golden cases: this project, TRL, or anybody by a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentmath.conformance.cases import Answer, Case, read_answers, shipped_cases, words, written
from agentmath.conformance.judge import Verdict, examine
from agentmath.core.errors import ConfigError, DataError

FRAMEWORKS = ("agentmath", "trl")


def show(frameworks: Sequence[str], answers: Path | None, *, export: Path | None, as_json: bool) -> bool:
    """Print verdicts, or write the cases to `export`; True when nothing differs that is not known to."""
    cases = shipped_cases()
    if export is not None:
        export.write_text("".join(written(case) + "\n" for case in cases), "utf-8")
        print(f"{len(cases)} cases: {export}")
        return True
    named = {str(answers): _answers(answers, cases)} if answers is not None else {}
    named |= {name: _framework(name) for name in frameworks or (() if named else ("agentmath",))}
    good = True
    for name, (answer, known) in named.items():
        verdicts = examine(cases, answer)
        print_all = _print_json if as_json else _print_table
        print_all(name, verdicts, known)
        good &= all(v.outcome in ("agrees", "unsupported") or v.case.id in known for v in verdicts)
    return good


def _framework(name: str) -> tuple[Callable[[Case], Answer], Mapping[str, str]]:
    if name == "agentmath":
        from agentmath.conformance import ours

        return ours.answer, {}
    if name == "trl":
        from agentmath.conformance import trl_grpo

        return trl_grpo.framework(), trl_grpo.DIFFERENCES
    raise ConfigError(f"there is no framework {name!r}: known are {', '.join(FRAMEWORKS)}; others by --answers FILE")


def _answers(path: Path, cases: Sequence[Case]) -> tuple[Callable[[Case], Answer], Mapping[str, str]]:
    try:
        found = dict(read_answers(path.read_text("utf-8").splitlines(), str(path)))
    except (OSError, UnicodeDecodeError) as fault:
        raise DataError(f"{path} cannot be read: {fault}") from fault
    unknown = sorted(found.keys() - {case.id for case in cases})
    if unknown:
        raise DataError(f"{path}: there is no case {unknown[0]!r}; write the cases with --export FILE")
    return lambda case: found.get(case.id, {"unsupported": "no answer in the file"}), {}


def _print_json(name: str, verdicts: Iterable[Verdict], known: Mapping[str, str]) -> None:
    for v in verdicts:
        line = {
            "framework": name,
            "case": v.case.id,
            "verdict": v.outcome,
            "expected": v.case.expected,
            "got": v.got,
            "detail": v.detail,
            "why": v.case.why,
            "known": known.get(v.case.id),
        }
        print(json.dumps(words(line), allow_nan=False))


def _print_table(name: str, verdicts: Sequence[Verdict], known: Mapping[str, str]) -> None:
    table = Table(title=name, title_justify="left", box=None, pad_edge=False)
    for heading in ("case", "verdict", "expected and got", "why"):
        table.add_column(heading, overflow="fold")
    for v in verdicts:
        reason = known.get(v.case.id) if v.outcome == "differs" else None
        table.add_row(v.case.id, v.outcome, v.detail, v.case.why if reason is None else f"known: it {reason}")
    Console().print(table)
    counts = Counter(v.outcome for v in verdicts)
    print(f"{name}: {', '.join(f'{n} {outcome}' for outcome, n in counts.most_common())} of {len(verdicts)} cases")
