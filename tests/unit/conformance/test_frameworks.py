"""Both adapters on every case: ours must agree, TRL may differ only where that is known."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from agentmath.conformance import ours
from agentmath.conformance.cases import shipped_cases
from agentmath.conformance.judge import Verdict, examine

CASES = shipped_cases()


def outcomes(verdicts: list[Verdict], outcome: str) -> set[str]:
    return {v.case.id for v in verdicts if v.outcome == outcome}


def test_this_project_agrees_on_every_case():
    verdicts = examine(CASES, ours.answer)
    assert [(v.case.id, v.detail) for v in verdicts if v.outcome != "agrees"] == []


@pytest.fixture(scope="module")
def trl_verdicts() -> list[Verdict]:
    if find_spec("trl") is None:
        pytest.skip("trl is not installed: pip install 'agentmath[bench]'")
    from agentmath.conformance import trl_grpo

    return examine(CASES, trl_grpo.framework())


@pytest.mark.filterwarnings("ignore")
def test_trl_differs_exactly_where_that_is_known(trl_verdicts: list[Verdict]):
    from agentmath.conformance.trl_grpo import DIFFERENCES

    assert [(v.case.id, v.detail) for v in trl_verdicts if v.outcome == "error"] == []
    assert outcomes(trl_verdicts, "differs") == set(DIFFERENCES)


@pytest.mark.filterwarnings("ignore")
def test_trl_is_asked_most_cases(trl_verdicts: list[Verdict]):
    unsupported = outcomes(trl_verdicts, "unsupported")
    assert unsupported == {
        "advantage-rloo",
        "aggregation-prompt-token-mean",
        "correction-geometric-mask",
        "kl-k1",
        "kl-k2",
    }


def mutated(change: Any) -> Any:
    """Our answer with one known fault put back in."""

    def answer(case: Any) -> Any:
        return change(case, dict(ours.answer(case)))

    return answer


def micro_batch_count(case: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """Divided by the tokens of each piece instead of those of the step."""
    if case.kind != "loss" or "loss" not in answer:
        return answer
    counts = [sum(row) for row in case.inputs["mask"]]
    gradient = [list(row) for row in answer["gradient"]]
    for piece in case.inputs["microbatches"]:
        factor = sum(counts) / max(1, sum(counts[s] for s in piece))
        for s in piece:
            gradient[s] = [g * factor for g in gradient[s]]
    return {**answer, "gradient": gradient}


def padded_count(case: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """Masked above the line and not below it."""
    if case.kind != "loss" or "loss" not in answer or case.settings["aggregation"] != "token-mean":
        return answer
    share = sum(map(sum, case.inputs["mask"])) / sum(map(len, case.inputs["mask"]))
    return {"loss": answer["loss"] * share, "gradient": [[g * share for g in row] for row in answer["gradient"]]}


@pytest.mark.parametrize(
    ("change", "found_by"),
    [(micro_batch_count, "microbatches-token-mean"), (padded_count, "mask-tool-tokens")],
)
def test_a_fault_put_back_in_is_found(change: Any, found_by: str):
    assert found_by in outcomes(examine(CASES, mutated(change)), "differs")
