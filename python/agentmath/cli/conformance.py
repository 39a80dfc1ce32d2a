"""agentmath conformance: golden cases of losses and advantages, for any training framework."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentmath.cli.errors import guarded

EPILOG = (
    "A framework of your own: write the cases with --export cases.jsonl, answer them there with one line "
    '{"id": CASE, "loss": ..., "gradient": [[...]]} or {"id": CASE, "advantages": [...]} each (or "unsupported": WHY), '
    "and judge with --answers FILE. Exit code: 0 when nothing differs but what is known to."
)


@guarded
def conformance(
    framework: Annotated[
        list[str] | None, typer.Option("--framework", metavar="NAME", help="agentmath (by default) or trl; repeatable.")
    ] = None,
    *,
    answers: Annotated[
        Path | None, typer.Option("--answers", metavar="FILE", help="Answers of another framework, JSON lines.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write the cases as JSON lines, and stop.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """Check masks, denominators, ratios and gradients of a training framework on golden cases."""
    from agentmath.cli import verdicts

    if not verdicts.show(framework or [], answers, export=export, as_json=as_json):
        raise typer.Exit(1)
