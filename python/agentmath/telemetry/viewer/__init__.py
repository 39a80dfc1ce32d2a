"""The report of a run: one HTML file that needs no network and runs nothing but its own script."""

from agentmath.telemetry.viewer.report import write_report

__all__ = ["write_report"]
