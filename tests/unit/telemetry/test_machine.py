from __future__ import annotations

import os

from agentmath.telemetry.machine import describe_machine


def test_a_machine_is_described_by_what_figures_depend_on() -> None:
    about = describe_machine()
    assert set(about) == {"processor", "cores", "memory_gib", "system", "python", "load_average"}
    assert about["processor"]
    assert about["cores"] == len(os.sched_getaffinity(0))
    assert about["memory_gib"] > 0
