"""The gradient of a step does not depend on how many processes share its samples, or the head."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).parent
needs_gloo = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch was built without gloo")


def outcomes(script: str, folder: Path, num_ranks: int, *words: str) -> list[dict[str, Any]]:
    """What each of num_ranks processes comes to."""
    meeting = folder / "-".join(["meeting", str(num_ranks), *words])
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "fixtures"), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, HERE / script, str(meeting), str(rank), str(num_ranks), *words],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(num_ranks)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * num_ranks
    return [json.loads(words.splitlines()[-1]) for words in said]


@needs_gloo
def test_two_ranks_come_to_the_gradient_of_one(tmp_path: Path):
    (alone,) = outcomes("one_rank.py", tmp_path, 1)
    for rank in outcomes("one_rank.py", tmp_path, 2):
        for aggregation, expected in alone.items():
            found = torch.tensor(rank[aggregation], dtype=torch.float64)
            assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-15)
    assert torch.tensor(alone["token-mean"]).norm() > 1e-3


@needs_gloo
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 3e-5)])
def test_ranks_that_share_the_head_come_to_the_loss_and_gradients_of_one(tmp_path: Path, dtype: str, tolerance: float):
    def same(found: Any, expected: Any) -> None:
        a, b = torch.tensor(found, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64)
        assert a.shape == b.shape
        assert float((a - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))

    (alone,) = outcomes("one_part.py", tmp_path, 1, dtype)
    assert alone["clip"]["rows"][1] == 1
    for num_ranks in (2, 3):
        ranks = outcomes("one_part.py", tmp_path, num_ranks, dtype)
        for name, expected in alone.items():
            for rank in ranks:
                for figure in set(expected) - {"weight"}:
                    same(rank[name][figure], expected[figure])
            same([row for rank in ranks for row in rank[name]["weight"]], expected["weight"])
            assert torch.tensor(expected["weight"]).norm() > 1e-3
