"""agentmath view RUN_DIR: write the report of a run and say where it is."""

from __future__ import annotations

from pathlib import Path

from agentmath.core.errors import ConfigError
from agentmath.telemetry.events import read_metrics
from agentmath.telemetry.run_dir import METRICS, holds_run, missing_run
from agentmath.telemetry.viewer import write_report


def view(run_dir: Path) -> Path:
    """Write RUN_DIR/report.html and return its path.

    Raises ConfigError for a folder that is no run, for a run that has recorded nothing yet, and where the report cannot
    be written; DataError for damaged metrics.
    """
    run_dir = run_dir.expanduser()
    if not holds_run(run_dir):
        raise ConfigError(f"nothing to view: {missing_run(run_dir)}")
    metrics = run_dir / METRICS
    if not metrics.exists() or not read_metrics(metrics):
        raise ConfigError(
            f"nothing to view yet: {run_dir} has no metrics. They appear with the first finished step; if the run has "
            "ended, it failed before that: see what it printed."
        )
    return write_report(run_dir)
