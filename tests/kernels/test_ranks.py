"""The gradient of a step does not depend on how many processes share it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).parent / "one_rank.py"


def gradients(folder: Path, num_ranks: int) -> list[dict[str, Any]]:
    """What each of num_ranks processes comes to."""
    meeting = folder / f"meeting-{num_ranks}"
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(meeting), str(rank), str(num_ranks)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(num_ranks)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * num_ranks
    return [json.loads(words.splitlines()[-1]) for words in said]


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch was built without gloo")
def test_two_ranks_come_to_the_gradient_of_one(tmp_path: Path):
    (alone,) = gradients(tmp_path, 1)
    for rank in gradients(tmp_path, 2):
        for aggregation, expected in alone.items():
            found = torch.tensor(rank[aggregation], dtype=torch.float64)
            assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-15)
    assert torch.tensor(alone["token-mean"]).norm() > 1e-3
