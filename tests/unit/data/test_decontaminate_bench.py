"""The benchmark finds what it planted, at a size that takes a second."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[3] / "bench/decontaminate.py"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("bench_decontaminate", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_planted_row_is_found_and_every_decoy_is_a_variant(bench: ModuleType, tmp_path: Path) -> None:
    sizes = argparse.Namespace(rows=400, questions=60, words=50, planted=20, candidates="index", seed=3)
    measured = bench.measure(sizes, tmp_path)
    assert (measured["rows"], measured["planted"], measured["decoys"]) == (400, 20, 20)
    assert measured["recall"] == measured["precision"] == 1.0
    assert measured["variants"] == 20


def test_texts_depend_on_the_seed_alone(bench: ModuleType) -> None:
    assert bench.Words(5).draw(20) == bench.Words(5).draw(20) != bench.Words(6).draw(20)
