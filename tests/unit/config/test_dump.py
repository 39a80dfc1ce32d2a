"""A recipe written down and read back is the same recipe; differences are listed one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from agentmath.config.load import diff_recipes, dump_recipe, load_recipe, shipped_recipes
from agentmath.config.recipe import Recipe
from agentmath.config.schema import is_array, keys, section_names, section_type

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


def bounds(field: FieldInfo) -> dict[str, Any]:
    """Limits as hypothesis takes them, a little inside of those that exclude their limit."""
    found: dict[str, Any] = {}
    inside = 1 if field.annotation is int else 1e-6
    for item in field.metadata:
        for name, key, shift in (
            ("ge", "min_value", 0),
            ("gt", "min_value", inside),
            ("le", "max_value", 0),
            ("lt", "max_value", -inside),
        ):
            if hasattr(item, name):
                found[key] = getattr(item, name) + shift
    return found


def values(annotation: Any, limits: dict[str, Any]) -> st.SearchStrategy[Any]:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return st.sampled_from(arguments)
    if get_origin(annotation) is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(values(arguments[0], {}), max_size=3).map(tuple)
        return st.tuples(*(values(a, {}) for a in arguments))
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(**limits)
    if annotation is float:
        return st.floats(allow_nan=False, allow_infinity=False, **limits)
    assert annotation is str, annotation
    return TEXT


def sections(name: str) -> st.SearchStrategy[Any]:
    fields = {key: values(field.annotation, bounds(field)) for key, field in keys(name).items()}
    one = st.fixed_dictionaries(fields).map(lambda given: section_type(name)(**given))
    return st.lists(one, max_size=3).map(tuple) if is_array(name) else one


RECIPES = st.fixed_dictionaries({name: sections(name) for name in section_names()}).map(lambda given: Recipe(**given))


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(recipe=RECIPES)
def test_a_dumped_recipe_loads_back_equal(tmp_path: Path, recipe: Recipe) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(dump_recipe(recipe), encoding="utf-8", newline="")
    assert load_recipe(str(file)) == recipe


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_a_dump_is_a_fixed_point(tmp_path: Path, name: str) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(dump_recipe(load_recipe(name)))
    assert dump_recipe(load_recipe(str(file))) == file.read_text()


def test_a_dump_holds_defaults_too() -> None:
    assert "group_size = 8\n" in dump_recipe(Recipe())


def test_equal_recipes_do_not_differ() -> None:
    assert diff_recipes(load_recipe("quickstart"), load_recipe("quickstart")) == []


def test_each_changed_setting_is_one_line_with_both_values() -> None:
    changed = ["--run.seed=4", "--run.name=x", "--optimizer.betas=[0.5, 0.5]", "--data.arithmetic.digits=3"]
    assert diff_recipes(load_recipe("quickstart"), load_recipe("quickstart", changed)) == [
        'run.name: "quickstart" -> "x"',
        "run.seed: 0 -> 4",
        "data.arithmetic.digits: 2 -> 3",
        "optimizer.betas: [0.9, 0.95] -> [0.5, 0.5]",
    ]


def test_sources_are_matched_by_name(tmp_path: Path) -> None:
    def recipe(*names: str) -> Recipe:
        file = tmp_path / "recipe.toml"
        file.write_text("".join(f'[[data]]\nname = "{name}"\n' for name in names))
        return load_recipe(str(file))

    assert diff_recipes(recipe("a", "b"), recipe("a", "c")) == [
        "data.b: present -> absent",
        "data.c: absent -> present",
    ]
    assert diff_recipes(recipe("a", "b"), recipe("b", "a")) == ["data: order data.a, data.b -> data.b, data.a"]
    assert diff_recipes(recipe("a", "a"), recipe("a", "a")) == []
    assert diff_recipes(recipe("a", "a"), recipe("a")) == ["data.1: present -> absent"]
