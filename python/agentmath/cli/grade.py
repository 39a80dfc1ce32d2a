"""agentmath grade: verdicts on a file of predictions, one JSON line each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agentmath.cli.errors import guarded
from agentmath.core.errors import ConfigError

EPILOG = (
    'A row is {"gold": TEXT, "prediction": TEXT}; "form" says what the prediction is: "answer", the bare answer (taken '
    'when nothing is said), "box", a text whose answer stands in a box, or "text", a text that may state it otherwise. '
    'Optional: "id", which is repeated, and "match", true or false, with which the summary compares the verdict. Each '
    'row gives {"match", "extracted", "rule", "error"} in order; match is null where there is no verdict, and error '
    "says why. Exit code: 0 when the file was processed."
)


def _says(words: str) -> Any:
    return typer.Option(help=words, show_default=False)


@guarded
def grade(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSONL or JSONL.gz; - is standard input.")],
    *,
    accept_unevaluated: Annotated[bool | None, _says("2+3 is right for 5; by default not.")] = None,
    accept_unreduced: Annotated[bool | None, _says("2/4 is right for 1/2; by default it is.")] = None,
    accept_percent_as_fraction: Annotated[bool | None, _says("0.28 is right for 28%; by default not.")] = None,
    accept_rounded_gold: Annotated[bool | None, _says("100/3 is right for 33.3; by default it is.")] = None,
    accept_number_words: Annotated[bool | None, _says('"two" is right for 2; by default not.')] = None,
    accept_vectors_as_tuples: Annotated[
        bool | None, _says("(1,2) is right for a column of 1 and 2; by default not.")
    ] = None,
    read_decimal_comma: Annotated[bool | None, _says("1000,99 is 1000.99; by default not.")] = None,
    join_boxes: Annotated[bool | None, _says('Boxes joined by a comma or "and" are a list; by default so.')] = None,
    ignore_think: Annotated[bool | None, _says("A box in a closed think section is no answer; by default so.")] = None,
    decimal_tolerance: Annotated[
        float | None, _says("Relative difference between a decimal and a fraction or formula; 1e-6.")
    ] = None,
    answer_seconds: Annotated[float | None, _says("Longest time of one answer; 5.")] = None,
    num_workers: Annotated[int | None, _says("Processes for what is no plain number; 2.")] = None,
    worker_memory_bytes: Annotated[int | None, _says("Address space of one of them; 2 GiB.")] = None,
) -> None:
    """Grade predictions against gold answers, one JSON line each."""
    given = {key: value for key, value in locals().items() if key != "file" and value is not None}
    from pydantic import ValidationError

    from agentmath.cli import graded_rows
    from agentmath.config.grading import GradingSection
    from agentmath.config.schema import allowed

    try:
        section = GradingSection(**given)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        rule = allowed(GradingSection.model_fields[key])
        raise ConfigError(f"--{key.replace('_', '-')} {given[key]}: must be {rule}") from error
    graded_rows.run(file, section)
