"""The doctor: every absence has a price, and only what is needed makes it fail."""

from __future__ import annotations

import json

import pytest

from agentmath.cli import doctor
from agentmath.cli.doctor import Finding, available_memory_bytes, examine, print_findings
from agentmath.cli.main import main


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return examine()


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(caught.value.code or 0)


def test_every_absence_has_a_price(findings: list[Finding]) -> None:
    assert all(f.cost for f in findings if not f.is_present)
    assert all(f.value for f in findings if f.is_present)


def test_what_runs_these_tests_is_found(findings: list[Finding]) -> None:
    present = {f.name for f in findings if f.is_present}
    assert {"python", "torch", "transformers", "pyarrow", "cpu"} <= present


def test_the_loss_backend_of_this_machine_is_named(findings: list[Finding]) -> None:
    (found,) = (f for f in findings if f.name == "loss backend")
    assert found.value.startswith("native on cpu")


def test_areas_are_not_interleaved(findings: list[Finding]) -> None:
    areas = [f.area for f in findings]
    assert areas == sorted(areas, key=list(dict.fromkeys(areas)).index)


def test_memory_is_plausible() -> None:
    memory = available_memory_bytes()
    assert memory is None or 1 << 20 < memory < 1 << 50


def test_json_holds_every_finding(findings: list[Finding], capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(findings, as_json=True)
    assert [Finding(**f) for f in json.loads(capsys.readouterr().out)] == findings


@pytest.mark.parametrize(("is_needed", "code"), [(True, 1), (False, 0)])
def test_only_a_missing_need_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_needed: bool, code: int
) -> None:
    finding = Finding(area="a", name="thing", value="", is_present=False, is_needed=is_needed, cost="nothing works")
    monkeypatch.setattr(doctor, "examine", lambda: [finding])
    assert exit_code("doctor") == code
    out = capsys.readouterr().out
    assert "thing" in out
    assert "nothing works" in out
    assert ("needed and missing: thing" in out) is is_needed
