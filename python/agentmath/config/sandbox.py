"""[sandbox]: limits on the model's programs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class SandboxSection(Section):
    mode: Literal["strict", "best", "trusted"] = "best"
    """strict: a missing isolation layer is an error; best: use what there is and report it; trusted: limits only."""
    num_workers: int = Field(default=0, ge=0)
    """Executions at the same time; 0 takes the number of cores."""
    cpu_seconds: float = Field(default=2.0, gt=0)
    wall_seconds: float = Field(default=10.0, gt=0)
    memory_bytes: int = Field(default=512 << 20, ge=16 << 20)
    output_bytes: int = Field(default=64 << 10, gt=0)
    file_bytes: int = Field(default=16 << 20, ge=0)
    queue_seconds: float = Field(default=60.0, gt=0)
    """How long a call may wait for a free worker."""
    preload: tuple[str, ...] = ("numpy", "sympy")
    """Modules that take long to import: a second zygote holds them ready as soon as code names one. Those that are not
    installed are left out."""
