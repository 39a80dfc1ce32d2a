"""Bounds that come with a name, and settings of [algorithm] that nothing reads."""

from __future__ import annotations

import pytest

from agentmath.config.algorithm import AlgorithmSection
from agentmath.config.load import check_recipe, dump_recipe, load_recipe
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError


def recipe(*overrides: str) -> Recipe:
    return load_recipe("quickstart", [f"--{o}" for o in overrides])


def about_algorithm(*overrides: str) -> list[str]:
    return [warning for warning in check_recipe(recipe(*overrides)) if "algorithm" in warning]


def test_a_name_brings_its_bounds_and_a_given_bound_stays() -> None:
    found = recipe("algorithm.surrogate=gspo", "algorithm.correction=icepop").algorithm
    assert (found.clip_low, found.clip_high) == (3e-4, 4e-4)
    assert (found.importance_floor, found.importance_cap) == (0.5, 5.0)
    found = recipe("algorithm.surrogate=cispo", "algorithm.clip_high=1.5").algorithm
    assert (found.clip_low, found.clip_high) == (1.0, 1.5)


def test_a_resolved_recipe_says_which_bounds_it_took() -> None:
    text = dump_recipe(recipe("algorithm.surrogate=gspo"))
    assert "clip_low = 0.0003\n" in text
    assert 'correction = "token_tis"\n' in text


def test_a_resolved_recipe_is_read_back_equal(tmp_path: object) -> None:
    for surrogate in ("ppo_clip", "gspo", "cispo", "sapo", "dppo"):
        given = recipe(f"algorithm.surrogate={surrogate}", "algorithm.correction=geometric_mask")
        file = f"{tmp_path}/{surrogate}.toml"
        with open(file, "w") as stream:
            stream.write(dump_recipe(given))
        assert load_recipe(file) == given


def test_what_is_no_name_is_left_to_the_field_itself() -> None:
    for value in (3, None, ["gspo"], "ppo"):
        with pytest.raises(ValueError, match="surrogate"):
            AlgorithmSection.model_validate({"surrogate": value})
    with pytest.raises(ValueError):
        AlgorithmSection.model_validate("gspo")


@pytest.mark.parametrize("key", ["advantage", "surrogate", "correction", "kl", "aggregation"])
def test_an_unknown_name_lists_the_known_ones(key: str) -> None:
    with pytest.raises(ConfigError, match=rf'algorithm.{key} = "nonsense" .*: must be one of "[a-z_-]+", "'):
        recipe(f"algorithm.{key}=nonsense")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["algorithm.importance_floor=3"], "algorithm.importance_floor = 3.0 is above algorithm.importance_cap = 2.0"),
        (["algorithm.resample_to=1"], "leaves nothing to compare a sample with"),
        (["algorithm.overlong_buffer_tokens=65"], "is longer than a trajectory may be"),
    ],
)
def test_combinations_that_cannot_work_are_refused(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        check_recipe(recipe(*overrides))


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["algorithm.surrogate=gspo", "algorithm.aggregation=seq-mean-token-mean"],
            "algorithm.surrogate has no effect",
        ),
        (["algorithm.sapo_tau_positive=2"], "algorithm.sapo_tau_positive has no effect: ppo_clip has no gate"),
        (["algorithm.advantage=rloo", "algorithm.std_floor=0.1"], "algorithm.std_floor has no effect: rloo divides"),
        (["algorithm.importance_floor=0.5"], "algorithm.importance_floor has no effect: token_tis has no lower bound"),
        (
            ["algorithm.correction=none", "algorithm.importance_cap=3"],
            "algorithm.importance_cap has no effect: nothing",
        ),
        (["algorithm.kl_coef=0.1"], "algorithm.kl_coef has no effect: there is no KL penalty"),
        (["algorithm.overlong_penalty=2"], "algorithm.overlong_penalty has no effect"),
        (["algorithm.resample_to=8"], "algorithm.resample_to has no effect: a group has rollout.group_size = 8"),
        (
            ["algorithm.surrogate=dppo", "algorithm.correction=icepop"],
            "algorithm.correction has no effect: dppo measures",
        ),
        (
            ["algorithm.surrogate=cispo", "algorithm.dual_clip=3"],
            "algorithm.dual_clip has no effect: cispo has no dual",
        ),
        (["algorithm.surrogate=sapo", "algorithm.clip_low=0.1"], "algorithm.clip_low has no effect: sapo has a gate"),
        (["algorithm.kl=k1"], "restrains nothing"),
        (["algorithm.surrogate=gspo"], "gives long sequences more weight"),
        (["algorithm.surrogate=gspo", "algorithm.clip_high=0.28"], "algorithm.clip_high = 0.28 hardly ever acts"),
    ],
)
def test_a_setting_that_hardly_means_what_it_says_warns(overrides: list[str], sentence: str) -> None:
    assert any(sentence in warning for warning in about_algorithm(*overrides)), about_algorithm(*overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["algorithm.surrogate=gspo", "algorithm.aggregation=seq-mean-token-mean", "training.updates_per_step=2"],
        ["algorithm.surrogate=cispo", "training.updates_per_step=2"],
        ["algorithm.surrogate=sapo", "algorithm.sapo_tau_negative=2", "training.updates_per_step=2"],
        ["algorithm.surrogate=dppo", "algorithm.clip_high=0.1"],
        ["algorithm.correction=icepop"],
        ["algorithm.correction=sequence_mask", "algorithm.importance_floor=0.2"],
        ["algorithm.kl=k3", "algorithm.kl_coef=0.1"],
        ["algorithm.overlong_buffer_tokens=16", "algorithm.overlong_penalty=0.5"],
        ["algorithm.resample_to=4"],
        ["algorithm.advantage=reinforce_plus_plus"],
        ["algorithm.advantage=leave_one_out", "algorithm.std_floor=0.1"],
    ],
)
def test_settings_that_act_do_not_warn(overrides: list[str]) -> None:
    assert about_algorithm(*overrides) == []
