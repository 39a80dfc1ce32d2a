"""agentmath simulate: which mode and balancer suit a model, its lengths, engines and tools; how far from the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentmath.cli.errors import guarded
from agentmath.core.errors import ConfigError

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
USAGE = "SCENARIO [--section.key VALUE]... [OPTIONS]"
EPILOG = (
    "SCENARIO is a TOML file or the name of a shipped one: agentmath_8b, no_tools, quickstart, slow_tools. Any setting "
    "can be changed by --section.key VALUE, one policy's by --policies.NAME.key VALUE. docs/simulate.md explains the "
    "table."
)


@guarded
def simulate(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Draw what the engines did over time.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the scenario with all its settings, run nothing.")
    ] = False,
) -> None:
    """Predict rollout throughput by simulating the real scheduler and balancer over modelled engines and tools."""
    if not context.args or context.args[0].startswith("--"):
        raise ConfigError("name a scenario: a TOML file, or one of agentmath_8b, no_tools, quickstart, slow_tools")
    if picture is not None and picture.suffix.lower() != ".svg":
        raise ConfigError(f"--picture {picture}: name a file that ends in .svg")
    from agentmath.cli import simulated

    simulated.run(context.args[0], context.args[1:], as_json=as_json, picture=picture, show=show)
