"""Versions of what took part in a measurement."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = ("agentmath", "torch", "transformers", "tokenizers", "numpy", "math-verify", "sympy", "httpx2", "pyarrow")


def package_versions() -> dict[str, str]:
    """Version of each package that is installed, and of Python."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
