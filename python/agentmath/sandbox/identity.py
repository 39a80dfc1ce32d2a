"""Which interpreter this is: trainer and zygote must be the same one."""

from __future__ import annotations

import sys


def describe_python() -> list[str]:
    """Version and place. A loader that finds another libpython, or a lost prefix, shows here."""
    return [sys.version, sys.base_prefix]
