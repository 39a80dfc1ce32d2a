"""agentmath sandbox: run programs as a model's are run, show the isolation, measure the speed."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

import typer

from agentmath.cli.errors import guarded
from agentmath.core.errors import SandboxError

app = typer.Typer(
    name="sandbox",
    help="Run Python as a model's programs are run: apart, limited, and watched.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_FILES = typer.Argument(metavar="FILE...", help="Python programs; - is standard input.", show_default=False)
_RUN_EPILOG = (
    "Limits that are not given are those of a recipe's [sandbox] section. Exit code: 0 when every program ended with "
    "status ok, 1 when one did not, 2 when the command line cannot work."
)


@app.command(epilog=_RUN_EPILOG)
@guarded
def run(
    files: Annotated[list[str], _FILES],
    *,
    session: Annotated[
        bool, typer.Option("--session", help="Run the files as blocks of one session, whose variables live on.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file.")] = False,
    mode: Annotated[
        Literal["strict", "best", "trusted"] | None,
        typer.Option("--mode", help="strict: every layer or an error; best: what there is; trusted: limits only."),
    ] = None,
    cpu_seconds: Annotated[float | None, typer.Option("--cpu-seconds", help="CPU time of a program.")] = None,
    wall_seconds: Annotated[float | None, typer.Option("--wall-seconds", help="Wall time of a program.")] = None,
    memory_bytes: Annotated[
        int | None, typer.Option("--memory-bytes", help="Memory beyond the interpreter's own.")
    ] = None,
    output_bytes: Annotated[
        int | None, typer.Option("--output-bytes", help="Kept of each of stdout and stderr; 8 times as much ends it.")
    ] = None,
    file_bytes: Annotated[int | None, typer.Option("--file-bytes", help="Largest file it may write.")] = None,
    preload: Annotated[
        list[str] | None,
        typer.Option(
            "--preload", metavar="MODULE", help="Import before any program runs; again, or with commas, for several."
        ),
    ] = None,
) -> None:
    """Run programs, each fresh or all in one session, and say how they ended."""
    from agentmath.cli import snippets

    section = snippets.make_section(
        mode=mode,
        cpu_seconds=cpu_seconds,
        wall_seconds=wall_seconds,
        memory_bytes=memory_bytes,
        output_bytes=output_bytes,
        file_bytes=file_bytes,
        preload=tuple(name for given in preload for name in given.split(",")) if preload else None,
    )
    programs = snippets.read_programs(files)
    if not snippets.run(programs, section, in_session=session, as_json=as_json):
        raise typer.Exit(1)


@app.command()
@guarded
def report(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the isolation layers: in force or why not, and what that leaves open."""
    from agentmath.cli.isolation import examine_sandbox, print_layers
    from agentmath.core.types import ToolStatus

    layers, trial = examine_sandbox()
    print_layers(layers, trial, as_json=as_json)
    if trial is not ToolStatus.OK:
        raise SandboxError(f"with these layers a small program ended with status {trial}: no program can be run")


@app.command()
@guarded
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer executions: seconds instead of minutes.")] = False,
) -> None:
    """Measure executions beside an interpreter started for each; quiet machines only give figures to keep."""
    import asyncio

    from agentmath.sandbox.figures import lines
    from agentmath.sandbox.latency import FULL, QUICK, measure

    if sys.stderr.isatty():
        print(f"measuring, {'some seconds' if quick else 'some minutes'}", file=sys.stderr, flush=True)
    measured = asyncio.run(measure(QUICK if quick else FULL))
    print(json.dumps(measured, indent=2) if as_json else "\n".join(lines(measured)))
