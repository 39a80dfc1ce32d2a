"""Loading a scenario: one clear sentence for every way to get it wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from agentmath.config.scenario import Scenario
from agentmath.config.scenario_file import load_scenario, longest_context, shipped_scenarios
from agentmath.core.errors import ConfigError


def write(folder: Path, text: str | bytes) -> str:
    file = folder / "scenario.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def refusal(scenario: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_scenario(scenario, overrides)
    return str(caught.value)


def test_an_empty_file_is_a_scenario_of_defaults(tmp_path: Path) -> None:
    assert load_scenario(write(tmp_path, "")) == Scenario()


def test_every_shipped_scenario_says_what_it_is_and_loads() -> None:
    found = shipped_scenarios()
    assert set(found) == {"agentmath_8b", "no_tools", "quickstart", "slow_tools"}
    for name, summary in found.items():
        assert summary.endswith(".")
        load_scenario(name)


def test_overrides_change_sections_one_policy_or_all(tmp_path: Path) -> None:
    text = '[[policies]]\nname = "a"\n[[policies]]\nbalancer = "least"\n'
    overrides = ["--engines.count", "3", "--policies.a.kv_share", "0.5", "--policies.least.base_weight=2"]
    scenario = load_scenario(write(tmp_path, text), [*overrides, "--policies.reroute_tokens", "100"])
    assert scenario.engines.count == 3
    assert [p.kv_share for p in scenario.policies] == [0.5, 0.0]
    assert [p.base_weight for p in scenario.policies] == [1.0, 2.0]
    assert [p.reroute_tokens for p in scenario.policies] == [100, 100]


def test_policies_that_no_file_names_can_be_overridden(tmp_path: Path) -> None:
    scenario = load_scenario(write(tmp_path, ""), ["--policies.breakable.break_factor", "1.1"])
    assert [p.break_factor for p in scenario.policies] == [1.2, 1.1]


def test_unknown_keys_are_refused_with_the_nearest_one(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "[workload]\nmean_tokens = 3\ncount = 2\n[engine]\ncount = 2\n"))
    assert "workload.mean_tokens; did you mean workload.mean_sampled_tokens?" in said
    assert "workload.count; did you mean engines.count?" in said
    assert "[engine]; did you mean engines?" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engines = 3", "engines must be a table: write [engines] above its keys"),
        ("[policies]\nkv_share = 1", "policies must be an array of tables: write [[policies]]"),
        ("policies = []", "policies: at least one is needed"),
        ("[engines]\ncount = 0", "engines.count = 0: must be a whole number, at least 1"),
        ("[engines]\ncount = 1.5", "engines.count = 1.5: must be a whole number"),
        ("[engines]\ncount = true", "engines.count = True: must be a whole number"),
        ("[engines]\nstep_seconds = nan", "engines.step_seconds = nan: must be a"),
        ("[tools]\ntimeout_share = 1.1", "tools.timeout_share = 1.1: must be a number, at least 0, at most 1"),
        ("[[policies]]\nbalancer = 'best'", "policies.balancer = 'best': must be one of \"agentmath\""),
        ("[scheduling]\nmodes = ['batch', 'x']", "scheduling.modes = ['batch', 'x']: must be a list of some of"),
        ("[scheduling]\nmodes = ['batch', 'batch']", "scheduling.modes = ['batch', 'batch']: name each mode once"),
        ("[scheduling]\nmodes = 'batch'", "scheduling.modes = 'batch': must be"),
        ("[scheduling]\nmodes = []", "scheduling.modes = []: must be"),
        ("[scheduling]\nmodes = ['batch']", "scheduling.baseline = 'lockstep': must be one of scheduling.modes, batch"),
        ("[[policies]]\n[[policies]]", "two policies are named breakable"),
        ("[engines]\nkv_tokens = 1000", "one engine holds engines.kv_tokens = 1000"),
        ("[[policies]]\nkv_share = 0.001", "are 10880 tokens, less than one trajectory may have (96512)"),
        ("[workload]\ngroups_per_step = 100000\ngroup_size = 11", "are more than can be simulated"),
        ("[run", "is not valid TOML"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(write(tmp_path, text))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "did you mean quickstart?" in refusal("quick_start")
    assert "is not UTF-8 text (byte 0)" in refusal(write(tmp_path, b"\xff"))
    assert "cannot be read" in refusal(str(tmp_path))
    assert "too large" in refusal(write(tmp_path, b"#" * (1 << 20) + b"\n"))


def test_bad_overrides_are_named() -> None:
    assert "did you mean --engines.count?" in refusal("quickstart", "--engines.cuont", "3")
    assert "did you mean --engines.count?" in refusal("quickstart", "--engine.count", "3")
    assert "has no policy 'x'" in refusal("quickstart", "--policies.x.kv_share", "1")
    assert "must be a whole number" in refusal("quickstart", "--engines.count", "many")


def test_the_longest_context_counts_the_output_of_all_calls() -> None:
    scenario = load_scenario("quickstart")
    assert longest_context(scenario) == 100 + 2000 + 12 * 40
    assert longest_context(load_scenario("quickstart", ["--tools.tokens_per_call", "0"])) == 2100


def test_the_main_scenario_writes_out_the_settings_that_it_documents() -> None:
    path = Path(__file__).parents[3] / "python/agentmath/recipes/scenarios/agentmath_8b.toml"
    written = tomllib.loads(path.read_text("utf-8"))
    assert set(written) == set(Scenario.model_fields)
