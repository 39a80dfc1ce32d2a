"""A step whose rollouts fail leaves behind where each trajectory stood."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from agentmath._C import rollout
from agentmath.core.errors import EngineError
from agentmath.orchestration.saving import rollouts_written_on_failure


def test_the_state_of_the_rollouts_is_written_and_named(tmp_path: Path) -> None:
    core = rollout.Scheduler(rollout.Settings())
    core.begin_round(1, 0)
    core.submit(4, 10, 2, 0)
    core.decide(0)
    run: Any = SimpleNamespace(
        directory=SimpleNamespace(inspect=tmp_path / "inspect"),
        parts=SimpleNamespace(
            state=SimpleNamespace(step=6), collector=SimpleNamespace(dump=lambda: core.dump(2 * 10**9))
        ),
    )
    with (
        pytest.raises(EngineError, match=r"too slow\. Where .*rollouts-000007\.json") as raised,
        rollouts_written_on_failure(run),
    ):
        raise EngineError("too slow.")
    assert str(raised.value).count("\n") == 0
    (first, second) = json.loads((tmp_path / "inspect" / "rollouts-000007.json").read_text())["unfinished"]
    assert (first["group"], first["sample"], first["state"], first["for_seconds"]) == (4, 0, "running", 2.0)
    assert second["sample"] == 1
