"""[run]: name, seed and where the run lives."""

from __future__ import annotations

from pydantic import Field

from agentmath.config.section import Section


class RunSection(Section):
    name: str = "run"
    """Name of the run; the run directory is output_dir/name-SEED unless output_dir already names one."""
    seed: int = Field(default=0, ge=0)
    """Everything random in the run follows from it."""
    output_dir: str = "runs"
    """Folder that holds run directories."""
    num_threads: int = Field(default=0, ge=0)
    """Threads of the trainer and engine; 0 takes the number of physical cores this process may use."""
