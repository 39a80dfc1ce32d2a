"""Loading a recipe: one clear sentence for every way to get it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmath.config.load import load_recipe, shipped_recipes
from agentmath.core.errors import ConfigError


def write(folder: Path, text: str | bytes) -> str:
    file = folder / "recipe.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def refusal(recipe: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(recipe, overrides)
    return str(caught.value)


def test_an_empty_file_is_a_recipe_of_defaults(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, ""))
    assert recipe.rollout.group_size == 8
    assert recipe.data == ()


def test_sections_lists_and_arrays_of_tables_are_read(tmp_path: Path) -> None:
    text = """
[optimizer]
learning_rate = 1
betas = [0, 0.5]
[sandbox]
preload = ["numpy"]
[[data]]
name = "a"
steps = [1, 2]
[[data]]
name = "b"
"""
    recipe = load_recipe(write(tmp_path, text))
    assert recipe.optimizer.learning_rate == 1.0
    assert isinstance(recipe.optimizer.learning_rate, float)
    assert recipe.optimizer.betas == (0.0, 0.5)
    assert recipe.sandbox.preload == ("numpy",)
    assert [source.name for source in recipe.data] == ["a", "b"]
    assert recipe.data[0].steps == (1, 2)


def test_every_shipped_recipe_loads_and_says_what_it_is() -> None:
    shipped = shipped_recipes()
    assert "quickstart" in shipped
    for name, summary in shipped.items():
        load_recipe(name)
        assert summary, name


def test_an_unknown_recipe_names_the_nearest_shipped_one() -> None:
    said = refusal("quikstart")
    assert "'quikstart'" in said
    assert "did you mean quickstart" in said
    assert "shipped: " in said


def test_a_mistyped_path_names_the_nearest_shipped_one() -> None:
    assert "did you mean quickstart" in refusal("recipes/quickstrat.toml")


def test_a_folder_is_no_recipe_and_its_recipes_are_named(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    said = refusal(str(tmp_path))
    assert "is a folder" in said
    assert file in said


@pytest.mark.parametrize("name", ["", "\0", "x" * 5000, "~nobody-of-this-name/x.toml", "/dev/null/x"])
def test_odd_names_are_refused_in_words(name: str) -> None:
    assert "recipe" in refusal(name)


def test_a_toml_error_names_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path, "[run]\nseed = 3\nname = = 4\n")
    said = refusal(file)
    assert file in said
    assert "line 3" in said
    assert "name = = 4" in said


@pytest.mark.parametrize(
    "text",
    [
        "[run]\nseed = 1\nseed = 2\n",
        "[run]\n[run]\n",
        'x = "',
        "[" * 5000,
        "a = " + "[" * 100_000,
        "run.seed = " + "9" * 5000,
    ],
)
def test_broken_toml_is_refused_in_words(tmp_path: Path, text: str) -> None:
    assert "recipe" in refusal(write(tmp_path, text))


def test_a_file_that_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    assert "UTF-8" in refusal(write(tmp_path, b"\x80\x81"))


def test_a_file_far_too_large_is_not_read_to_its_end() -> None:
    assert "/dev/zero is too large to be a recipe" in refusal("/dev/zero")


def test_windows_line_ends_are_tolerated(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, b"[run]\r\nseed = 3\r\n")).run.seed == 3


def test_a_byte_order_mark_is_tolerated(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, b"\xef\xbb\xbf[run]\nseed = 3\n")).run.seed == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[rollout]\nmax_tool_call = 2", "unknown key rollout.max_tool_call; did you mean rollout.max_tool_calls?"),
        ("[sft]\ngroup_size = 2", "unknown key sft.group_size; did you mean rollout.group_size?"),
        ("group_size = 2", "unknown key group_size outside of any section; did you mean rollout.group_size?"),
        ("[rollouts]\ngroup_size = 2", "unknown section [rollouts]; did you mean rollout?"),
        ('[[data]]\nname = "a"\ndigit = 2', "unknown key data.a.digit; did you mean data.a.digits?"),
        (
            "[sft]\nlearning_rate = 1.0",
            "unknown key sft.learning_rate; did you mean sft_optimizer.learning_rate or optimizer.learning_rate?",
        ),
        ("[training]\nkind = 2", "did you mean"),
        ("[reward]\nzzz = 2", "unknown key reward.zzz; the keys are tool_alpha, tool_beta, tool_max"),
        ("zzz = 2", "unknown key zzz outside of any section; keys belong under a [section]"),
        ("[zzz]", "unknown section [zzz]; the sections are run, model, data"),
        ("run = 3", "run must be a table: write [run] above its keys"),
        ('[data]\nname = "a"', "data must be an array of tables: write [[data]] above each"),
        ("[[run]]\nseed = 3", "run must be a table"),
    ],
)
def test_what_is_unknown_is_named_with_the_nearest_valid_key(tmp_path: Path, text: str, sentence: str) -> None:
    file = write(tmp_path, text)
    said = refusal(file)
    assert said.startswith(f"recipe {file}: ")
    assert sentence in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[rollout]\ngroup_size = 1", "rollout.group_size = 1: must be a whole number, at least 2"),
        ("[rollout]\ngroup_size = 8.0", "rollout.group_size = 8.0: must be a whole number, at least 2"),
        ("[rollout]\ngroup_size = true", "rollout.group_size = true: must be a whole number, at least 2"),
        ('[rollout]\ngroup_size = "8"', 'rollout.group_size = "8": must be a whole number, at least 2'),
        ("[rollout]\ntemperature = 0", "rollout.temperature = 0: must be a number, greater than 0"),
        ("[rollout]\nmax_tool_calls = -1", "rollout.max_tool_calls = -1: must be a whole number, at least 0"),
        ("[optimizer]\nlearning_rate = nan", "optimizer.learning_rate = nan: must be a number, greater than 0"),
        ("[optimizer]\nlearning_rate = inf", "optimizer.learning_rate = inf: must be a number, greater than 0"),
        ("[optimizer]\nbetas = [0.9]", "optimizer.betas = [0.9]: must be a list of 2 numbers"),
        ("[optimizer]\nbetas = [0.9, 0.9, 0.9]", "must be a list of 2 numbers"),
        ("[optimizer]\nbetas = [0.9, inf]", "must be a list of 2 numbers"),
        ("[sandbox]\npreload = [1]", "sandbox.preload = [1]: must be a list of texts"),
        ("[sandbox]\npreload = {a = 1}", 'sandbox.preload = {"a" = 1}: must be a list of texts'),
        ("[prompt]\nchat = 1", "prompt.chat = 1: must be true or false"),
        ('[model]\ndtype = "half"', 'model.dtype = "half": must be one of "float32", "bfloat16"'),
        ("[run]\nname = 2024-01-01", "run.name = 2024-01-01: must be text"),
        ("[algorithm]\nclip_low = 2", "algorithm.clip_low = 2: must be a number, at least 0, at most 1"),
        ("[[data]]\ndigits = 2", "data.0 lacks name: it must be text"),
        ('[[data]]\nname = "a"\ndigits = 0', "data.a.digits = 0: must be a whole number, at least 1, at most 9"),
    ],
)
def test_a_wrong_value_is_shown_with_what_is_allowed(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(write(tmp_path, text)).endswith(sentence)


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "[rollout]\ngroup_size = 1\nsteps = 2\n[run]\nseed = -1\n"))
    assert "3 faults" in said
    assert len(said.splitlines()) == 4


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    assert len(refusal(write(tmp_path, f'[run]\nseed = "{"x" * 10_000}"'))) < 400


def test_a_value_from_the_command_line_is_marked(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, ""), "--rollout.group_size", "1")
    assert "rollout.group_size = 1 (given on the command line): must be" in said


def test_text_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    assert "must be text" in refusal(write(tmp_path, ""), "--model.path=\udcff")
