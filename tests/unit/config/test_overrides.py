"""Overrides: the same values as in the file, addressed from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.config.load import load_recipe
from agentmath.config.overrides import apply_overrides, parse_overrides
from agentmath.config.recipe import Recipe
from agentmath.core.errors import ConfigError

SOURCES = """
[[data]]
name = "sums"
[[data]]
name = "svamp.v2"
[[data]]
name = "0"
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(SOURCES)
    return str(path)


def refusal(file: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(file, overrides)
    return str(caught.value)


def test_both_spellings_mean_the_same(file: str) -> None:
    assert load_recipe(file, ["--run.seed", "3"]) == load_recipe(file, ["--run.seed=3"])


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("--run.name=plain", "run", "name", "plain"),
        ('--run.name="quoted"', "run", "name", "quoted"),
        ("--run.name=7", "run", "name", "7"),
        ("--run.name=true", "run", "name", "true"),
        ("--run.name=2024-01-01", "run", "name", "2024-01-01"),
        ("--run.name=a=b", "run", "name", "a=b"),
        ("--run.name=", "run", "name", ""),
        ("--prompt.system=two words\nand a = 3", "prompt", "system", "two words\nand a = 3"),
        ("--prompt.system=3\nchat = 4", "prompt", "system", "3\nchat = 4"),
        ("--optimizer.learning_rate=1e-4", "optimizer", "learning_rate", 1e-4),
        ("--optimizer.learning_rate=1", "optimizer", "learning_rate", 1.0),
        ("--optimizer.betas=[0.8, 0.9]", "optimizer", "betas", (0.8, 0.9)),
        ('--sandbox.preload=["numpy", "sympy"]', "sandbox", "preload", ("numpy", "sympy")),
        ("--prompt.chat=false", "prompt", "chat", False),
        ("--model.dtype=bfloat16", "model", "dtype", "bfloat16"),
        ("--training.loss_chunk_bytes=1_000_000", "training", "loss_chunk_bytes", 1_000_000),
    ],
)
def test_values_are_toml_and_text_needs_no_quotes(file: str, override: str, section: str, key: str, value: Any) -> None:
    assert getattr(getattr(load_recipe(file, [override]), section), key) == value


def test_a_negative_value_is_a_value(file: str) -> None:
    assert "run.seed = -3 (given" in refusal(file, "--run.seed", "-3")


@pytest.mark.parametrize("value", ["True", "yes", "[0.8", "[a, b]", ".5", "9" * 5000, "[" * 3000])
def test_what_is_no_toml_is_text_and_refused_where_text_is_wrong(file: str, value: str) -> None:
    assert "must be a list of 2 numbers" in refusal(file, "--optimizer.betas", value)


def test_tables_of_an_array_are_addressed_by_name_or_index(file: str) -> None:
    recipe = load_recipe(file, ["--data.sums.digits", "3", "--data.svamp.v2.digits=4", "--data.2.held_out=5"])
    assert [source.digits for source in recipe.data] == [3, 4, 2]
    assert recipe.data[2].held_out == 5


def test_a_name_goes_before_an_index(file: str) -> None:
    assert [source.digits for source in load_recipe(file, ["--data.0.digits=9"]).data] == [2, 2, 9]


def test_renaming_does_not_move_the_other_overrides(file: str) -> None:
    recipe = load_recipe(file, ["--data.sums.name=other", "--data.sums.digits=3"])
    assert (recipe.data[0].name, recipe.data[0].digits) == ("other", 3)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["--run.seed"], "--run.seed needs a value"),
        (["--run.seed", "--run.name", "x"], "--run.seed needs a value"),
        (["--run.seed", "1", "--run.seed=2"], "--run.seed is given twice, with '1' and '2'"),
        (["--data.sums.digits", "1", "--data.1.digits=2", "--data.svamp.v2.digits=2"], "is given twice"),
        (["word"], "unexpected argument 'word'"),
        (["--"], "unexpected argument '--'"),
        (["-x"], "unexpected argument '-x'"),
        (["--group_size", "1"], "unknown option --group_size; did you mean --rollout.group_size?"),
        (["--zzz"], "unknown option --zzz; overrides are written --section.key VALUE"),
        (["--rollout.group-size=1"], "there is no key 'group-size' in [rollout]; did you mean --rollout.group_size?"),
        (["--trainer.steps=1"], "there is no section 'trainer'; did you mean --training.steps?"),
        (["--zzz.group_size=1"], "did you mean --rollout.group_size?"),
        (["--zzz.zzz=1"], "sections are run, model"),
        (["--.=1"], "there is no section ''"),
        (["--run.=1"], "there is no key '' in [run]"),
        (["--run..seed=1"], "there is no key '.seed' in [run]; did you mean --run.seed?"),
        (["--data.path=x"], "name which data is meant: --data.sums.path"),
        (["--data.svam.path=x"], "no [[data]] called 'svam'; it has: sums, svamp.v2, 0"),
        (["--data.7.path=x"], "no [[data]] called '7'"),
        (["--data.sums.pth=x"], "did you mean --data.sums.path?"),
        (["--data=x"], "unknown option --data"),
    ],
)
def test_a_wrong_override_gets_one_sentence(file: str, overrides: list[str], sentence: str) -> None:
    assert sentence in refusal(file, *overrides)


def test_an_ambiguous_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('[[data]]\nname = "a"\n[[data]]\nname = "a"\n')
    assert "2 tables of [[data]] are called 'a'" in refusal(str(path), "--data.a.digits=3")


def test_an_override_of_a_section_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("run = 3\ndata = 4\n")
    assert "run is not a table" in refusal(str(path), "--run.seed=3")
    assert "data is not an array of tables" in refusal(str(path), "--data.a.digits=3")


@given(st.lists(st.text(max_size=12).map(lambda t: "--" + t), max_size=4))
def test_no_words_make_it_fail_otherwise_than_in_words(words: list[str]) -> None:
    try:
        apply_overrides({}, parse_overrides(words))
    except ConfigError as error:
        assert str(error)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_reaches_a_text_setting_or_is_its_toml_reading(text: str) -> None:
    document: dict[str, Any] = {}
    apply_overrides(document, parse_overrides([f"--prompt.system={text}"]))
    value = document["prompt"]["system"]
    assert value == text or text.strip()[:1] in {"'", '"'}
    assert Recipe.model_validate(document).prompt.system == value
