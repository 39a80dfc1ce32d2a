"""What `agentmath eval` takes its first word for."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmath.cli.subject import read_subject
from agentmath.config.dump import dump_recipe
from agentmath.config.load import load_recipe
from agentmath.core.errors import ConfigError


def test_an_address_is_a_server_measured_by_benchmarks() -> None:
    recipe, _, run_dir = read_subject(["http://127.0.0.1:1/v1", "--endpoint.model", "m"], None)
    assert (recipe.run.name, recipe.endpoint.url, run_dir) == ("benchmarks", "http://127.0.0.1:1/v1", None)


def test_a_run_brings_its_recipe_and_overrides_change_it(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(dump_recipe(load_recipe("quickstart", ["--run.seed=5"])))
    recipe, warnings, run_dir = read_subject([str(tmp_path), "--evaluation.num_samples=3"], None)
    assert (recipe.run.seed, recipe.evaluation.num_samples, run_dir, warnings) == (5, 3, tmp_path, [])


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_model_is_a_folder_with_a_config_or_a_gguf_file(tmp_path: Path, is_folder: bool) -> None:
    path = tmp_path / ("model" if is_folder else "model.gguf")
    if is_folder:
        path.mkdir()
        (path / "config.json").touch()
    recipe, _, _ = read_subject([str(path)], None)
    assert (recipe.run.name, recipe.model.path) == ("benchmarks", str(path))


def test_a_name_with_one_slash_is_a_model_of_the_hub_and_a_word_is_a_recipe() -> None:
    assert read_subject(["owner/model"], None)[0].model.path == "owner/model"
    assert read_subject(["quickstart"], None)[0].run.name == "quickstart"
    with pytest.raises(ConfigError, match="there is no recipe 'quickstrat'"):
        read_subject(["quickstrat"], None)


def test_settings_of_a_server_without_an_address_have_no_effect() -> None:
    _, warnings, _ = read_subject(["quickstart", "--endpoint.max_concurrent=3"], None)
    assert any("endpoint.max_concurrent has no effect" in warning for warning in warnings)
