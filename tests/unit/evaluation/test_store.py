"""What a kill leaves of an evaluation: whole records, each sample once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmath.core.errors import CheckpointError, ConfigError
from agentmath.core.types import StopReason
from agentmath.evaluation.store import JOURNAL, Store
from evaluated_samples import sample, task


def three(folder: Path) -> bytes:
    with Store(folder) as store:
        for index in range(3):
            store.keep([sample(of=task(5), ordinal=5, index=index)], seconds=1.5, counts={"requests": 2})
    return (folder / JOURNAL).read_bytes()


def test_samples_come_back_as_they_were(tmp_path: Path) -> None:
    kept = sample("9", of=task(5), ordinal=5, index=2)
    with Store(tmp_path) as store:
        store.keep([kept], seconds=1.5, counts={"requests": 2})
    with Store(tmp_path) as store:
        found = store.done[5, 2]
        assert (store.seconds, store.counts["requests"]) == (1.5, 2)
    assert found.reward == kept.reward and found.task == kept.task and found.stop_reason == kept.stop_reason
    assert np.array_equal(found.tokens.ids, kept.tokens.ids)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(share=st.floats(0, 1))
def test_wherever_a_kill_cuts_the_journal_whole_records_stay_and_the_rest_can_be_added(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    data = three(folder)
    end = int(share * len(data))
    (folder / JOURNAL).write_bytes(data[:end])
    with Store(folder) as store:
        indices = sorted(i for _, i in store.done)
        assert indices == list(range(len(indices))) and len(indices) == 3 * end // len(data)
        for index in range(len(indices), 3):
            store.keep([sample(of=task(5), ordinal=5, index=index)], seconds=1.5, counts={"requests": 2})
    assert (folder / JOURNAL).read_bytes() == data


def test_a_damaged_record_ends_the_journal(tmp_path: Path) -> None:
    data = bytearray(three(tmp_path))
    data[len(data) // 3 + 40] ^= 1
    (tmp_path / JOURNAL).write_bytes(data)
    with Store(tmp_path) as store:
        assert sorted(store.done) == [(5, 0)]


def test_a_sample_cannot_be_kept_twice(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.keep([sample()], seconds=0.0, counts={})
        with pytest.raises(CheckpointError, match="drawn twice"):
            store.keep([sample()], seconds=0.0, counts={})


def test_lost_samples_are_not_kept_but_their_cost_is(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.keep([sample(stop=StopReason.ERROR)], seconds=2.0, counts={"lost": 1})
    with Store(tmp_path) as store:
        assert store.done == {} and store.seconds == 2.0 and store.counts["lost"] == 1


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with Store(tmp_path), pytest.raises(ConfigError, match="another process"):
        Store(tmp_path)
    with Store(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot write the evaluation"):
        Store(tmp_path / "e")
