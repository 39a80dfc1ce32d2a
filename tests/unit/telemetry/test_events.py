from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.core.errors import DataError
from agentmath.telemetry.events import read_metrics

GOOD = b'{"kind": "rl", "step": 1, "loss": 0.5}\n'


def test_events_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(GOOD + b'{"kind": "eval", "step": 0}\n')
    assert read_metrics(path) == [{"kind": "rl", "step": 1, "loss": 0.5}, {"kind": "eval", "step": 0}]


@given(cut=st.integers(min_value=0, max_value=len(GOOD) - 1))
def test_a_torn_last_line_is_left_out_wherever_it_was_torn(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "metrics.jsonl"
    path.write_bytes(GOOD + GOOD[:cut])
    assert len(read_metrics(path)) == 1


@pytest.mark.parametrize("line", [b"\n", b"[1]\n", b'{"step": 1}\n', b'{"kind": "rl", "step": "1"}\n', b"\xff\xfe\n"])
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(GOOD + line + GOOD)
    with pytest.raises(DataError, match="line 2"):
        read_metrics(path)
