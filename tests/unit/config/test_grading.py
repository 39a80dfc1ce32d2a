from __future__ import annotations

import pytest

from agentmath.config.grading import GradingSection
from agentmath.config.load import load_recipe
from agentmath.core.errors import ConfigError


def test_the_switches_are_keys_of_the_recipe() -> None:
    recipe = load_recipe("quickstart", ["--grading.accept_unevaluated=true", "--grading.answer_seconds=1.5"])
    assert recipe.grading == GradingSection(accept_unevaluated=True, answer_seconds=1.5)


@pytest.mark.parametrize(
    "setting", ["answer_seconds=0", "decimal_tolerance=0.5", "num_workers=0", "worker_memory_bytes=1"]
)
def test_limits_that_cannot_work_are_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"grading.{setting.partition('=')[0]}"):
        load_recipe("quickstart", [f"--grading.{setting}"])
