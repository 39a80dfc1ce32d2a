"""agentmath replay: scripted completions through the real loop and sandbox, one JSON line each."""

from __future__ import annotations

from typing import Annotated

import typer

from agentmath.cli.errors import guarded

EPILOG = (
    'A row is {"dialect": NAME, "completion": TEXT or list of generations}; a generation is a text or a list of '
    'pieces. Optional: "id", which is repeated; "mode", "rollout" (live: generation pauses at the first closing tag, '
    'taken when nothing is said) or "offline" (a stored trajectory, whose outputs are replaced by true ones); '
    '"settings" with max_tool_calls, max_consecutive_invalid, max_output_chars, timeout_s, finish_reason; "expected", '
    "which --check compares. Exit code: 0 when the file was processed, 1 when --check found a difference."
)


@guarded
def replay(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Rows: JSONL, JSONL.gz, JSON or parquet.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, too.")] = False,
    check: Annotated[bool, typer.Option("--check", help='Compare each row with its "expected".')] = False,
) -> None:
    """Play scripted completions: what is run, what comes back, what counts."""
    from agentmath.cli import replayed_rows

    if not replayed_rows.run(file, check=check, as_json=as_json):
        raise typer.Exit(1)
