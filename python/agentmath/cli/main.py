"""agentmath: the command line. Each command imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentmath.cli import conformance, data, decontaminate, grade, replay, sandbox, simulate
from agentmath.cli.errors import guarded, report, warn
from agentmath.core.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from agentmath.config.recipe import Recipe

app = typer.Typer(
    name="agentmath",
    help="Train language models that solve mathematics with tools.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(sandbox.app)
app.command(epilog=grade.EPILOG)(grade.grade)
app.command(epilog=replay.EPILOG)(replay.replay)
app.command()(decontaminate.decontaminate)
app.command(epilog=conformance.EPILOG)(conformance.conformance)
app.command(context_settings=data.SETTINGS, options_metavar=data.USAGE, epilog=data.EPILOG)(data.data)
app.command(context_settings=simulate.SETTINGS, options_metavar=simulate.USAGE, epilog=simulate.EPILOG)(
    simulate.simulate
)

_WITH_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}
_USAGE = "RECIPE [--section.key VALUE]... [OPTIONS]"
_EPILOG = (
    "RECIPE is a TOML file or the name of a shipped recipe (`agentmath recipes`). Any setting can be changed by "
    "--section.key VALUE, one of several data sources by --data.NAME.key VALUE."
)
_EVAL_EPILOG = (
    f"{_EPILOG} In place of RECIPE may stand the folder of a run, a model (folder, .gguf file or hub name) or the "
    "address of an OpenAI-compatible server; the last two are measured by the recipe `benchmarks`, on the sets whose "
    "files are given by --data.NAME.path."
)
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the resolved recipe and the batch arithmetic, run nothing.")
]
Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="[RUN_DIR]", help="Go on with a run: the recipe's own, or the one in RUN_DIR."),
]
OutputDir = Annotated[
    str | None, typer.Option("--output-dir", metavar="DIR", help="Short for --run.output_dir: where runs are kept.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train language models that solve mathematics with tools."""
    if version:
        print(f"agentmath {installed_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


@app.command(context_settings=_WITH_OVERRIDES, options_metavar=_USAGE, epilog=_EPILOG)
@guarded
def rl(context: typer.Context, dry_run: DryRun = False, resume: Resume = None, output_dir: OutputDir = None) -> None:
    """Train by reinforcement learning, supervised stage first."""
    recipe, run_dir = _prepare(context.args, resume, output_dir)
    if dry_run:
        _print_plan(recipe)
        return
    from agentmath.cli import rl as command

    command.run(recipe, run_dir)


@app.command(context_settings=_WITH_OVERRIDES, options_metavar=_USAGE, epilog=_EPILOG)
@guarded
def sft(context: typer.Context, dry_run: DryRun = False, resume: Resume = None, output_dir: OutputDir = None) -> None:
    """Run the supervised stage of a recipe alone."""
    recipe, run_dir = _prepare(context.args, resume, output_dir)
    if dry_run:
        _print_plan(recipe)
        return
    from agentmath.cli import sft as command

    command.run(recipe, run_dir)


@app.command("eval", context_settings=_WITH_OVERRIDES, options_metavar=_USAGE, epilog=_EVAL_EPILOG)
@guarded
def evaluate(
    context: typer.Context,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="PATH", help="Weights to measure instead of model.path.")
    ] = None,
    as_json: AsJson = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Write results and samples for publication.")
    ] = None,
    output_dir: OutputDir = None,
) -> None:
    """Measure a recipe's model, a run, any model or a served one on held-out tasks, with confidence intervals.

    Stopped in the middle, the same command goes on where it was.
    """
    from agentmath.cli.subject import read_subject

    recipe, warnings, run_dir = read_subject(context.args, output_dir)
    warn(warnings)
    if checkpoint is not None and not checkpoint.exists():
        raise ConfigError(f"--checkpoint {checkpoint} does not exist")
    from agentmath.cli import evaluate as command

    command.run(recipe, checkpoint, as_json, export, run_dir)


@app.command()
@guarded
def view(run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run.")]) -> None:
    """Write the HTML report of a run: curves and trajectories."""
    from agentmath.cli import view as command

    print(f"report: {command.view(run_dir)}")


@app.command()
@guarded
def doctor(as_json: AsJson = False) -> None:
    """Say what this machine has, and what each missing thing costs."""
    from agentmath.cli.doctor import examine, print_findings

    findings = examine()
    print_findings(findings, as_json=as_json)
    if any(f.is_needed and not f.is_present for f in findings):
        raise typer.Exit(1)


@app.command(context_settings=_WITH_OVERRIDES, options_metavar=_USAGE, epilog=_EPILOG)
@guarded
def plan(context: typer.Context, as_json: AsJson = False) -> None:
    """Show a recipe's batches, tokens and memory."""
    from agentmath.cli.plan import plan as rows_of
    from agentmath.cli.plan import print_rows

    recipe, _ = _prepare(context.args, None, None)
    print_rows(rows_of(recipe), as_json=as_json)


@app.command()
@guarded
def recipes(as_json: AsJson = False) -> None:
    """List the recipes that come with the package."""
    from agentmath.config.load import shipped_recipes

    found = shipped_recipes()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    width = max(map(len, found), default=0)
    for name, summary in found.items():
        print(f"{name:{width}}  {summary}".rstrip())


def installed_version() -> str:
    """Version of the installed package."""
    try:
        return metadata.version("agentmath")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; ends the process with the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=repeat_against(mark_bare_resume(given)), prog_name="agentmath")
    except KeyboardInterrupt:
        sys.exit(report(Interrupted("stopped by Ctrl-C")))


def mark_bare_resume(arguments: Sequence[str]) -> list[str]:
    """Spell a --resume without a folder as --resume= , as an option of the parser always has a value."""
    marked: list[str] = []
    for word, follower in zip(arguments, [*arguments[1:], "--"], strict=False):
        is_bare = word == "--resume" and follower.startswith("--")
        marked.append(f"{word}=" if is_bare else word)
    return marked


def repeat_against(arguments: Sequence[str]) -> list[str]:
    """Spell --against A B as --against A --against B: an option of the parser has one value."""
    spelled: list[str] = []
    is_listing = False
    for word in arguments:
        if word.startswith("--"):
            is_listing = word == "--against"
        elif is_listing and spelled[-1] != "--against":
            spelled.append("--against")
        spelled.append(word)
    return spelled


def _prepare(words: list[str], resume: str | None, output_dir: str | None) -> tuple[Recipe, Path | None]:
    """The checked recipe, and the run to go on with if one was asked for; warnings are printed."""
    from agentmath.cli.arguments import existing_run, own_run, read_recipe

    run_dir = existing_run(resume) if resume else None
    recipe, warnings = read_recipe(words, output_dir, run_dir=run_dir)
    warn(warnings)
    return recipe, own_run(recipe) if resume == "" else run_dir


def _print_plan(recipe: Recipe) -> None:
    from agentmath.cli.plan import plan as rows_of
    from agentmath.cli.plan import print_rows
    from agentmath.config.load import dump_recipe

    print(dump_recipe(recipe))
    print_rows(rows_of(recipe), as_json=False)
