"""What must hold between sections, and settings without effect."""

from __future__ import annotations

import pytest

from agentmath.config.data import DataSection
from agentmath.config.load import check_recipe, dump_recipe, load_recipe, shipped_recipes
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError


def quickstart(*overrides: str) -> Recipe:
    return load_recipe("quickstart", overrides)


def refusal(recipe: Recipe) -> str:
    with pytest.raises(ConfigError) as caught:
        check_recipe(recipe)
    return str(caught.value)


def with_data(*sources: DataSection, **sections: object) -> Recipe:
    return quickstart().model_copy(update={"data": sources, **sections})


def test_the_quickstart_has_neither_faults_nor_warnings() -> None:
    assert check_recipe(quickstart()) == []


def test_shipped_recipes_fail_only_for_files_that_the_user_must_give() -> None:
    for name in shipped_recipes():
        recipe = load_recipe(name)
        given = tuple(
            s if s.kind in ("arithmetic", "two_step") else s.model_copy(update={"path": "x"}) for s in recipe.data
        )
        assert check_recipe(recipe.model_copy(update={"data": given})) == [], name


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["--rollout.max_context_tokens=161"], "rollout.max_context_tokens = 161 is more than the engine holds"),
        (["--engine.max_context_tokens=257"], "is more than the new model can read (model.max_context_tokens = 256)"),
        (["--rollout.max_sampled_tokens=160"], "rollout.max_sampled_tokens = 160 leaves no room for the prompt"),
        (["--rollout.max_tool_output_tokens=160"], "rollout.max_tool_output_tokens = 160 leaves no room"),
        (["--rollout.min_survivors=9"], "rollout.min_survivors = 9 is more than a group has"),
        (["--model.num_heads=3", "--model.num_key_value_heads=1"], "must give heads of an even whole size"),
        (["--model.num_heads=128"], "must give heads of an even whole size"),
        (["--model.num_key_value_heads=3"], "model.num_heads = 4 must be a multiple of model.num_key_value_heads = 3"),
        (["--run.name=a/b"], "run.name = 'a/b' names a folder"),
        (["--run.name="], "run.name = '' names a folder"),
        (["--run.name=.."], "run.name = '..' names a folder"),
        (["--run.output_dir="], "run.output_dir is empty"),
        (["--run.seed=9223372036854775808"], "more than random generators take"),
        (["--optimizer.betas=[0.9, 1.0]"], "optimizer.betas = [0.9, 1.0]: each must be at least 0 and less than 1"),
        (["--rollout.groups_per_step=99999999999999"], "are more trajectories than one step can hold"),
        (["--run.num_threads=100000"], "run.num_threads = 100000 is more than can be had: at most 1,024"),
        (["--sandbox.memory_bytes=99999999999999999999"], "is more than can be had"),
        (["--rollout.max_in_flight=99999999999999999999"], "is more than can be had"),
        (["--rollout.over_submission=1e9"], "rollout.over_submission = 1000000000.0 is more than can be had"),
        (["--rollout.max_running_context_tokens=100"], "is less than one trajectory may take"),
        (["--data.arithmetic.max_tasks=99999999999"], "are too many problems"),
        (["--training.updates_per_step=17"], "is more than a step has groups to share out"),
        (["--data.arithmetic.max_tasks=200"], "all 200 tasks would be held out (held_out = 200)"),
        (["--data.arithmetic.max_tasks=0"], "has no problems: give --data.arithmetic.max_tasks N"),
        (["--data.arithmetic.role=eval"], "no data source is trained on"),
        (["--data.arithmetic.kind=svamp"], "has no file: give --data.arithmetic.path FILE"),
        (["--data.arithmetic.kind=reasoning_gym"], "names no dataset: give --data.arithmetic.dataset, e.g. chain_sum"),
        (["--data.arithmetic.kind=word_problem", "--data.arithmetic.steps=[0, 2]"], "word problems have 1 to 8 steps"),
        (["--data.arithmetic.difficulty=[1.0]"], "difficulty = [1.0]: give [low, high]"),
        (["--data.arithmetic.difficulty=[2.0, 1.0]"], "difficulty = [2.0, 1.0]: give [low, high]"),
        (["--data.arithmetic.name=a b"], "use letters, digits, dots, - and _ only"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(overrides: list[str], sentence: str) -> None:
    said = refusal(quickstart(*overrides))
    assert sentence in said
    assert "faults" not in said


def test_all_faults_are_listed_at_once() -> None:
    said = refusal(quickstart("--rollout.min_survivors=9", "--run.name=a/b"))
    assert "2 faults" in said


def test_bounds_are_inclusive_where_the_words_say_so() -> None:
    overrides = [
        "--rollout.min_survivors=8",
        "--training.updates_per_step=16",
        "--rollout.max_sampled_tokens=159",
        "--data.arithmetic.max_tasks=201",
    ]
    assert check_recipe(quickstart(*overrides)) == []


def test_data_names_are_unique() -> None:
    source = quickstart().data[0]
    assert "2 data sources are called 'arithmetic'" in refusal(with_data(source, source))


def test_supervised_training_from_a_file_needs_no_source() -> None:
    recipe = quickstart("--sft.path=demos.jsonl", "--training.steps=0")
    assert isinstance(check_recipe(recipe.model_copy(update={"data": ()})), list)
    assert "no data source is trained on" in refusal(with_data())


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["--model.path=x"], "model.max_context_tokens has no effect: model.path brings sizes of its own"),
        (["--data.arithmetic.path=x"], "data.arithmetic.path has no effect: problems are generated"),
        (["--data.arithmetic.bad_rows=skip"], "data.arithmetic.bad_rows has no effect: problems are generated"),
        (["--data.arithmetic.steps=[2]"], "data.arithmetic.steps has no effect: kind arithmetic does not know them"),
        (["--data.arithmetic.dataset=gcd"], "data.arithmetic.dataset has no effect: kind arithmetic"),
        (["--data.arithmetic.role=train"], "data.arithmetic.held_out has no effect: role train splits nothing off"),
        (["--data.arithmetic.held_out=0"], "accuracy will not be measured"),
        (["--rollout.max_segments=2"], "rollout.max_segments has no effect"),
        (
            ["--rollout.mode=segments", "--rollout.segment_sampled_tokens=64"],
            "has no effect: a whole trajectory has at most max_sampled_tokens = 64",
        ),
        (
            ["--rollout.mode=segments", "--rollout.segment_sampled_tokens=16"],
            "3 versions old when it ends and is dropped",
        ),
        (["--rollout.mode=batch", "--rollout.segment_tool_calls=2"], 'rollout.mode = "batch" bounds no pass'),
        (["--rollout.mode=quota", "--rollout.max_staleness=0"], 'rollout.mode = "quota" is the same as "batch" here'),
        (["--rollout.over_submission=2"], 'rollout.over_submission has no effect: only rollout.mode = "quota"'),
        (
            ["--rollout.mode=quota", "--rollout.max_staleness=0", "--rollout.over_submission=2"],
            "over_submission has no effect: with rollout.max_staleness = 0",
        ),
        (["--rollout.overdue=cancel"], "rollout.overdue has no effect"),
        (["--rollout.mode=quota", "--rollout.max_in_flight=9"], "rollout.max_in_flight has no effect"),
        (
            ["--rollout.mode=async", "--rollout.max_in_flight=9", "--rollout.over_submission=2"],
            "over_submission has no",
        ),
        (
            ["--rollout.mode=segments", "--rollout.segment_tool_calls=2"],
            "has no effect: a whole trajectory has at most max_tool_calls = 2",
        ),
        (["--algorithm.clip_low=0.1"], "algorithm.clip_low has no effect: with one update per step"),
        (["--algorithm.clip_low=0.1", "--algorithm.dual_clip=3"], "algorithm.clip_low, algorithm.dual_clip have no"),
        (["--algorithm.advantage=dr_grpo", "--algorithm.std_floor=0.1"], "algorithm.std_floor has no effect"),
        (["--algorithm.dynamic_sampling=false", "--rollout.max_refills=1"], "rollout.max_refills has no effect"),
        (["--rollout.max_tool_calls=0", "--reward.tool_beta=1"], "reward.tool_beta has no effect"),
        (["--evaluation.every_steps=50", "--training.steps=50"], "evaluation.every_steps = 50 has no effect"),
        (
            ["--optimizer.warmup_steps=50", "--training.steps=50"],
            "optimizer.warmup_steps = 50: 50 steps never get past the warm-up",
        ),
        (["--sft.steps=0"], "no effect: sft.steps = 0 skips the supervised stage"),
        (["--sft.path=x"], "sft.tool_share, sft.num_demonstrations have no effect"),
        (["--sandbox.wall_seconds=1"], "sandbox.cpu_seconds = 2.0 has no effect"),
    ],
)
def test_a_setting_without_effect_warns(overrides: list[str], sentence: str) -> None:
    warnings = check_recipe(quickstart(*overrides))
    assert any(sentence in warning for warning in warnings), warnings


def test_a_resolved_recipe_warns_no_more_than_the_original(tmp_path: object) -> None:
    recipe = quickstart("--model.path=x")
    file = f"{tmp_path}/recipe.toml"
    with open(file, "w") as stream:
        stream.write(dump_recipe(recipe))
    assert check_recipe(load_recipe(file)) == check_recipe(recipe)
