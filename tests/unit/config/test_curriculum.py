from __future__ import annotations

import pytest

from agentmath.config.check import check_recipe
from agentmath.config.curriculum import stages
from agentmath.config.load import dump_recipe, load_recipe
from agentmath.core.errors import ConfigError

GROWING = ["--curriculum.max_sampled_tokens=[40,56]", "--curriculum.max_tool_calls=[1,2]"]


def test_without_lists_there_is_one_stage_and_it_is_the_section() -> None:
    recipe = load_recipe("quickstart")
    assert stages(recipe.rollout, recipe.curriculum) == (recipe.rollout,)


def test_each_stage_has_its_budgets_and_everything_else_of_the_section() -> None:
    recipe = load_recipe("quickstart", GROWING)
    found = stages(recipe.rollout, recipe.curriculum)
    assert [(s.max_sampled_tokens, s.max_tool_calls) for s in found] == [(40, 1), (56, 2)]
    assert {s.max_context_tokens for s in found} == {recipe.rollout.max_context_tokens}
    assert {s.group_size for s in found} == {recipe.rollout.group_size}


def test_a_curriculum_survives_being_written_and_read(tmp_path) -> None:  # noqa: ANN001
    recipe = load_recipe("quickstart", [*GROWING, "--curriculum.window_steps=3"])
    path = tmp_path / "recipe.toml"
    path.write_text(dump_recipe(recipe))
    assert load_recipe(str(path)) == recipe


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([*GROWING[:1], "--curriculum.max_tool_calls=[1,2,3]"], "max_sampled_tokens 2, max_tool_calls 3"),
        (["--curriculum.max_sampled_tokens=[56,40]"], "never shrink"),
        (["--curriculum.max_sampled_tokens=[0,40]"], "start at 1 or more"),
        (["--curriculum.max_sampled_tokens=[40,160]"], "rollout.max_sampled_tokens = 160 leaves no room"),
        (["--curriculum.max_context_tokens=[150,161]"], "rollout.max_context_tokens = 161 is more than the engine"),
    ],
)
def test_what_no_stage_can_be_is_refused(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_recipe(load_recipe("quickstart", overrides))
    assert sentence in str(caught.value)
    assert "faults" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([*GROWING, "--rollout.max_tool_calls=3"], "rollout.max_tool_calls = 3 has no effect"),
        (["--curriculum.window_steps=3"], "curriculum.window_steps without effect: there is only one stage"),
    ],
)
def test_a_setting_that_nothing_reads_warns(overrides: list[str], sentence: str) -> None:
    assert any(sentence in warning for warning in check_recipe(load_recipe("quickstart", overrides)))
