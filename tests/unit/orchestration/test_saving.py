"""Which changes of a recipe a resumed run may have."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentmath.config.load import dump_recipe, load_recipe
from agentmath.core.errors import ConfigError
from agentmath.orchestration.saving import refuse_changed_recipe


def test_what_an_error_advises_to_change_can_be_changed_on_resume(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(dump_recipe(load_recipe("quickstart")))
    for advised in ("--training.nonfinite=skip", "--rollout.deadline_seconds=1", "--run.output_dir=elsewhere"):
        refuse_changed_recipe(load_recipe("quickstart", [advised]), tmp_path)


def test_everything_that_changes_numbers_is_listed(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(dump_recipe(load_recipe("quickstart")))
    changed = load_recipe("quickstart", ["--optimizer.learning_rate=0.5", "--rollout.group_size=4"])
    with pytest.raises(ConfigError, match=r"(?s)group_size: 8 -> 4.*learning_rate: .* -> 0.5"):
        refuse_changed_recipe(changed, tmp_path)
