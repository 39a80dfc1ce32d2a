"""agentmath decontaminate: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from agentmath.cli.errors import guarded

_TRAIN = typer.Argument(metavar="TRAIN...", help="Training files: .jsonl, .jsonl.gz, .parquet.", show_default=False)
_AGAINST = typer.Option("--against", metavar="EVAL...", help="Files of evaluation questions.", show_default=False)


@guarded
def decontaminate(
    train: Annotated[list[str], _TRAIN],
    against: Annotated[list[str], _AGAINST],
    *,
    drop: Annotated[bool, typer.Option("--drop", help="Write the rows that are not contaminated.")] = False,
    drop_variants: Annotated[bool, typer.Option("--drop-variants", help="Leave out variants too.")] = False,
    mark: Annotated[bool, typer.Option("--mark", help="Write all rows with a column that says what each is.")] = False,
    mark_column: Annotated[str, typer.Option("--mark-column", help="Name of that column.")] = "contamination",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="PATH", help="What is written; a folder for several files.")
    ] = None,
    report_file: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write counts and pairs as JSON.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", help="Search this column too, beside the question; repeatable.")
    ] = None,
    containment: Annotated[
        float, typer.Option("--containment", help="Share of a question's shingles that flags a row.")
    ] = 0.7,
    shingle_words: Annotated[int, typer.Option("--shingle-words", help="Words in a shingle.")] = 4,
    candidates: Annotated[
        Literal["index", "minhash"], typer.Option("--candidates", help="Every pair, or those that MinHash proposes.")
    ] = "index",
    bands: Annotated[int, typer.Option("--bands", help="Bands of a MinHash signature.")] = 32,
    rows_per_band: Annotated[int, typer.Option("--rows-per-band", help="Permutations in a band.")] = 4,
) -> None:
    """Search training files for the questions of evaluation files."""
    from agentmath.cli import contamination as command
    from agentmath.data.decontaminate import Rule

    rule = Rule(
        shingle_words=shingle_words,
        containment=containment,
        candidates=candidates,
        bands=bands,
        rows_per_band=rows_per_band,
    )
    command.run(
        command.Request(
            train=train,
            against=against,
            rule=rule,
            columns=column or (),
            drop=drop,
            drop_variants=drop_variants,
            mark=mark,
            mark_column=mark_column,
            output=output,
            report=report_file,
        )
    )
