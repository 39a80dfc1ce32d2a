from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TINY_POLICY = Path(__file__).parents[2] / "fixtures" / "tiny_policy.py"


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """tests/fixtures/tiny_policy.py as a module."""
    torch = pytest.importorskip("torch")
    # Threads only wait for each other on matrices this small.
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("tiny_policy", TINY_POLICY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_policy"] = module
    spec.loader.exec_module(module)
    return module
