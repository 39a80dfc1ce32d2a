"""A recipe as TOML text, and what differs between two recipes."""

from __future__ import annotations

import json

from agentmath.config.recipe import Recipe
from agentmath.config.schema import Toml
from agentmath.config.section import Section


def dump_recipe(recipe: Recipe) -> str:
    """TOML text of every setting, defaults included; load_recipe reads it back as an equal recipe."""
    blocks: list[str] = []
    for name in Recipe.model_fields:
        value: Section | tuple[Section, ...] = getattr(recipe, name)
        if isinstance(value, tuple):
            blocks += [_table(f"[[{name}]]", item) for item in value]
        else:
            blocks.append(_table(f"[{name}]", value))
    return "\n".join(blocks)


def diff_recipes(old: Recipe, new: Recipe) -> list[str]:
    """One line "section.key: old -> new" for each difference; tables of an array are matched by their name."""
    lines: list[str] = []
    for section in Recipe.model_fields:
        before, after = _named(section, getattr(old, section)), _named(section, getattr(new, section))
        for label in [*before, *(n for n in after if n not in before)]:
            lines += _differences(label, before.get(label), after.get(label))
        if before.keys() == after.keys() and list(before) != list(after):
            lines.append(f"{section}: order {', '.join(before)} -> {', '.join(after)}")
    return lines


def toml_value(value: Toml | tuple[Toml, ...]) -> str:
    """One value as TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(k)} = {toml_value(v)}' for k, v in value.items())}}}"
        case _:
            return str(value)


def _table(header: str, section: Section) -> str:
    lines = [f"{key} = {toml_value(getattr(section, key))}\n" for key in type(section).model_fields]
    return f"{header}\n{''.join(lines)}"


def _named(section: str, value: Section | tuple[Section, ...]) -> dict[str, Section]:
    if isinstance(value, Section):
        return {section: value}
    named: dict[str, Section] = {}
    for index, item in enumerate(value):
        label = f"{section}.{getattr(item, 'name', '') or index}"
        named[f"{section}.{index}" if label in named else label] = item
    return named


def _differences(label: str, old: Section | None, new: Section | None) -> list[str]:
    if old is None or new is None:
        given = [f"{label}: {{}} -> {{}}".format(*("absent" if s is None else "present" for s in (old, new)))]
        return given
    return [
        f"{label}.{key}: {toml_value(getattr(old, key))} -> {toml_value(getattr(new, key))}"
        for key in type(new).model_fields
        if getattr(old, key) != getattr(new, key)
    ]
