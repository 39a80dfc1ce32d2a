"""agentmath data: the command and its options."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from agentmath.cli.errors import guarded

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
USAGE = "RECIPE|FILE... [OPTIONS]"
EPILOG = (
    "RECIPE is a TOML file or the name of a shipped recipe; --data.NAME.key VALUE changes a setting of it. A FILE may "
    "also be a folder of files or a dataset of the hub (owner/name); its bad rows are counted and left out."
)


@guarded
def data(
    context: typer.Context,
    *,
    kind: Annotated[
        Literal["question_answer", "gsm8k", "svamp"] | None, typer.Option("--kind", help="How files are read.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Which files of a folder: train, test, ...")] = "",
    subset: Annotated[str, typer.Option("--subset", help="Which subset of a dataset.")] = "",
    question_column: Annotated[str, typer.Option("--question-column", help="Column of the question.")] = "",
    answer_column: Annotated[str, typer.Option("--answer-column", help="Column of the answer.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what data sources hold: rows, repeats, bad rows, answers, lengths, difficulties, samples."""
    from agentmath.cli import data_sources as command

    given = {"kind": kind, "split": split, "subset": subset}
    given |= {"question_column": question_column, "answer_column": answer_column}
    command.run(context.args, {key: value for key, value in given.items() if value}, json_out=as_json)
