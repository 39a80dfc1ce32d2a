"""The machine in words, for figures that depend on it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def describe_machine() -> dict[str, Any]:
    """Processor, cores this process may use, memory, system, Python and load."""
    return {
        "processor": _processor(),
        "cores": num_cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
