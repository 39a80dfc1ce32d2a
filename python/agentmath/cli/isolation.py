"""The isolation layers of this machine, found by opening a sandbox, and the table of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import TYPE_CHECKING

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import ToolStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentmath.sandbox.layers import Layer


def examine_sandbox() -> tuple[tuple[Layer, ...], ToolStatus]:
    """All layers, and how a small program ended in those in force. Raises SandboxError when nothing can be run."""
    return asyncio.run(_try_sandbox())


async def _try_sandbox() -> tuple[tuple[Layer, ...], ToolStatus]:
    from agentmath.sandbox.local import open_sandbox

    sandbox = await open_sandbox(SandboxSection(num_workers=1))
    try:
        return sandbox.report(), (await sandbox.execute("print(6 * 7)")).status
    finally:
        await sandbox.close()


def print_layers(layers: Sequence[Layer], trial: ToolStatus, *, as_json: bool) -> None:
    """Print one JSON object, a table on a terminal, or a line for each layer; trial: how a small program ended."""
    if as_json:
        print(json.dumps({"trial": trial, "layers": [dataclasses.asdict(layer) for layer in layers]}, indent=2))
    elif sys.stdout.isatty():
        _print_table(layers)
    else:
        width = max((len(layer.name) for layer in layers), default=0)
        for layer in layers:
            said = "in force" if layer.in_force else f"missing: {layer.why_not}; leaves open: {layer.leaves_open}"
            print(f"{layer.name:{width}}  {said}")


def _print_table(layers: Sequence[Layer]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("layer", "in force", "why not", "leaves open")
    for layer in layers:
        in_force = Text("yes", "green") if layer.in_force else Text("no", "red")
        missing = ("", "") if layer.in_force else (layer.why_not, layer.leaves_open)
        table.add_row(layer.name, in_force, *map(Text, missing))
    Console().print(table)
