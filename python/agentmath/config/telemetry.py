"""[telemetry]: what is written beside the checkpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class TelemetrySection(Section):
    tensorboard: bool = True
    progress: Literal["auto", "live", "plain", "off"] = "auto"
    """auto shows a live display on a terminal and one line a step elsewhere."""
    trajectories_every_steps: int = Field(default=1, ge=1)
    """Every n-th step's trajectories are written to parquet."""
