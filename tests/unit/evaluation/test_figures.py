"""Figures of samples made by hand: what each share counts, and what failures of the infrastructure do not touch."""

from __future__ import annotations

import pytest

from agentmath.core.types import Group, StopReason, ToolStatus
from agentmath.evaluation.figures import breakdown, figures, problem_rows
from agentmath.evaluation.shares import SHARES
from agentmath.evaluation.votes import RIGHT, votes_of
from evaluated_samples import group, sample, task

OK, BAD = ToolStatus.OK, ToolStatus.EXCEPTION


def test_estimates_are_means_over_problems() -> None:
    found = figures([group(0, ["0", "0"]), group(1, ["1", "9"]), group(2, ["8", "9"])], num_samples=2)
    values = {name: e.value for name, e in found.estimates.items()}
    assert values == {
        "avg@2": pytest.approx(0.5),
        "pass@1": pytest.approx(0.5),
        "pass@2": pytest.approx(2 / 3),
        "maj@2": pytest.approx(0.5),
    }


def test_lost_samples_are_counted_and_are_no_wrong_answers() -> None:
    found = figures([group(0, ["0", "lost"]), group(1, ["lost", "lost"])], num_samples=2)
    assert (found.num_problems, found.num_graded, found.num_failed) == (1, 1, 3)
    assert found.estimates["avg@2"].value == 1.0
    assert found.estimates["pass@1"].num_problems == 1
    assert "pass@2" not in found.estimates, "no problem has two samples left"


def test_nothing_graded_gives_no_figures() -> None:
    found = figures([group(0, ["lost"])], num_samples=1)
    assert (found.num_graded, found.num_failed, dict(found.estimates), dict(found.means)) == (0, 1, {}, {})


@pytest.mark.parametrize(
    ("share", "made", "other"),
    [
        ("tool_use", {"calls": [OK]}, {}),
        ("no_block", {}, {"faults": ("unclosed_code",)}),
        ("no_block", {}, {"calls": [BAD]}),
        ("failed_block", {"calls": [OK, BAD]}, {"calls": [OK]}),
        ("repaired_block", {"calls": [BAD, OK]}, {"calls": [OK, BAD]}),
        ("invented_output", {"stop": StopReason.INVENTED_OUTPUT}, {}),
        ("cut_by_length", {"stop": StopReason.LENGTH}, {"stop": StopReason.MAX_TOOL_CALLS}),
        ("refused_call", {"stop": StopReason.MAX_TOOL_CALLS}, {"stop": StopReason.LENGTH}),
        ("no_answer", {"answer": None}, {"answer": "7"}),
    ],
)
def test_each_share_counts_what_it_names(share: str, made: dict[str, object], other: dict[str, object]) -> None:
    assert SHARES[share](sample(**made)) is True  # type: ignore[arg-type]
    assert SHARES[share](sample(**other)) is False  # type: ignore[arg-type]


def test_repaired_is_given_of_all_and_of_those_that_failed() -> None:
    trajectories = [sample(calls=[BAD, OK]), sample(calls=[BAD]), sample(calls=[OK]), sample()]
    found = figures([Group(task=task(), ordinal=0, trajectories=trajectories)], num_samples=4)
    assert found.shares["failed_block"].value == 0.5
    assert found.shares["repaired_block"].value == 0.25
    assert found.shares["repaired_of_failed"].value == 0.5
    assert found.tool_seconds == pytest.approx(0.5)
    assert found.means["tool_calls"].value == 1.0


def test_votes_know_a_number_by_its_value_and_right_answers_by_their_verdict() -> None:
    answers = ["0", "7", "7.0", "$7$", "x+1", "x + 1", None]
    votes = votes_of([sample(a) for a in answers])
    assert votes[0] == RIGHT and votes[-1] is None
    assert votes[1] == votes[2] == votes[3] != votes[4]
    assert votes[4] == votes[5]


def test_breakdowns_stand_in_order_of_numbers_and_leave_out_what_has_no_label() -> None:
    groups = [group(0, ["0"], difficulty=10.0), group(1, ["9"], difficulty=2.0), group(2, ["2"])]
    parts = breakdown(groups, lambda t: None if t.difficulty is None else f"{t.difficulty:g}", num_samples=1)
    assert list(parts) == ["2", "10"]
    assert [f.estimates["avg@1"].value for f in parts.values()] == [0.0, 1.0]


def test_problem_rows_count_right_and_graded_samples() -> None:
    row = problem_rows([group(3, ["3", "lost", "4"])])[0]
    assert (row["id"], row["num_right"], row["num_graded"]) == ("t3", 1, 2)
