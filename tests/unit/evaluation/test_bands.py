"""Where bands end, and which evaluation they may come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentmath.core.errors import DataError
from agentmath.evaluation.bands import band_of, read_bands
from agentmath.evaluation.results import paired_difference
from evaluated_samples import group

PLAN = {"set": "s", "mode": "r_only", "model": {"digest": "d"}, "seed": 0}


@pytest.mark.parametrize(
    ("num_right", "band"),
    [
        (0, "hard"),
        (78, "hard"),
        (79, "medium_hard"),
        (90, "medium_hard"),
        (91, "medium_easy"),
        (95, "medium_easy"),
        (96, "easy"),
        (100, "easy"),
    ],
)
def test_bands_of_100_samples_end_where_the_experiment_says(num_right: int, band: str) -> None:
    assert band_of(num_right, 100) == band


def test_an_end_belongs_to_its_band_with_any_number_of_samples() -> None:
    assert [band_of(9, 10), band_of(19, 20), band_of(39, 50)] == ["medium_hard", "medium_easy", "hard"]


def write(folder: Path, plan: dict[str, object]) -> Path:
    problems = [{"id": "a", "num_right": 9, "num_graded": 10}, {"id": "lost", "num_right": 0, "num_graded": 0}]
    (folder / "results.json").write_text(json.dumps({"problems": problems, "plan": plan}))
    return folder


def test_bands_come_from_other_samples_than_those_compared(tmp_path: Path) -> None:
    folder = write(tmp_path, PLAN)
    assert read_bands(folder, plan={**PLAN, "seed": 1}) == {"a": "medium_hard"}
    assert read_bands(folder, plan={**PLAN, "mode": "r_code"}) == {"a": "medium_hard"}
    with pytest.raises(DataError, match="bands must come from others"):
        read_bands(folder, plan=PLAN)


def test_a_folder_without_results_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"results\.json cannot be read"):
        read_bands(tmp_path, plan=PLAN)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(DataError, match="holds no results of this version"):
        read_bands(tmp_path, plan=PLAN)


def test_differences_are_paired_by_problem_and_banded() -> None:
    code = [group(0, ["0", "0"]), group(1, ["1", "9"]), group(2, ["lost", "lost"])]
    only = [group(0, ["0", "9"]), group(1, ["9", "9"]), group(2, ["2", "2"])]
    found = paired_difference(code, only, {"t0": "hard", "t1": "easy"}, seed=0)
    assert found["all"]["value"] == pytest.approx(0.5)
    assert found["all"]["num_problems"] == 2
    assert found["by_band"]["hard"]["value"] == pytest.approx(0.5)


def test_modes_that_never_differ_are_not_known_to_be_equal() -> None:
    same = [group(i, ["0"]) for i in range(30)]
    found = paired_difference(same, same, None, seed=0)["all"]
    assert found["value"] == 0.0 and found["low"] == -found["high"] and 0.05 < found["high"] < 0.2
