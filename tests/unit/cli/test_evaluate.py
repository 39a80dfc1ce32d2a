"""What eval refuses before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentmath.cli.evaluate import refuse_run_folder, run
from agentmath.config.load import load_recipe
from agentmath.core.errors import ConfigError


def test_nothing_held_out_is_nothing_to_measure() -> None:
    with pytest.raises(ConfigError, match="nothing to measure"):
        run(load_recipe("quickstart", ["--data.arithmetic.held_out=0"]), None, False)


@pytest.mark.parametrize("inside", ["", "checkpoints/rl/step-00000004"])
def test_a_run_and_its_checkpoints_are_no_weights_and_the_exported_model_is_named(tmp_path: Path, inside: str) -> None:
    (tmp_path / "recipe.toml").touch()
    folder = tmp_path / inside
    folder.mkdir(parents=True, exist_ok=True)
    if inside:
        (folder / "recipe.toml").touch()
        (folder / "manifest.json").touch()
    with pytest.raises(ConfigError, match="has not ended, and has exported none"):
        refuse_run_folder(folder)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    with pytest.raises(ConfigError, match=f"take {tmp_path}/model"):
        refuse_run_folder(folder)
    refuse_run_folder(tmp_path / "model")


def test_a_folder_that_has_nothing_to_do_with_a_run_is_left_to_the_loader(tmp_path: Path) -> None:
    refuse_run_folder(tmp_path)
