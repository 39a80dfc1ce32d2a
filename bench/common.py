"""What every benchmark shares: one JSON record with the machine, the commit and the arguments beside the numbers."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentmath.telemetry.machine import describe_machine


def machine() -> dict[str, Any]:
    """The machine in words: processor, cores this process may use, memory, system and library versions."""
    import torch

    info = describe_machine() | {"torch": torch.__version__}
    if torch.cuda.is_available():
        info["gpu"] = torch.cuda.get_device_name()
    return info


def commit() -> str:
    """Short id of the checked-out commit, with + when files differ from it; empty outside of a checkout."""
    folder = Path(__file__).parent
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=folder, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()


def record(name: str, arguments: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one benchmark; body's keys stand at the top level."""
    return {"bench": name, "commit": commit(), "machine": machine(), "arguments": dict(arguments), **body}


def emit(result: Mapping[str, Any], *, as_json: bool, lines: Sequence[str]) -> None:
    """Print the record as one JSON object, or the lines meant for a person."""
    print(json.dumps(result, indent=2) if as_json else "\n".join(lines), flush=True)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Minimum, median and maximum of repeated timings, in seconds."""
    return {"min": min(seconds), "median": statistics.median(seconds), "max": max(seconds)}
