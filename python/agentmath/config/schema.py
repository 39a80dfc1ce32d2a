"""What a recipe may hold, read off the section models: names, types, bounds, and the key nearest to a wrong one."""

from __future__ import annotations

import datetime
import difflib
from typing import Any, Literal, TypeAlias, TypeGuard, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from agentmath.config.recipe import Recipe
from agentmath.config.section import Section

Toml: TypeAlias = "str | bool | int | float | datetime.date | datetime.time | list[Toml] | dict[str, Toml]"
"""A value of a TOML document."""
Document: TypeAlias = dict[str, Toml]

_SIMILAR = 0.7
_TYPE_WORDS: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_PLURALS: dict[Any, str] = {str: "texts", int: "whole numbers", float: "numbers", bool: "true or false"}


def section_names() -> list[str]:
    """Names of all sections, in the order of the recipe."""
    return list(Recipe.model_fields)


def is_array(section: str) -> bool:
    """True for an array of tables such as [[data]]."""
    return get_origin(Recipe.model_fields[section].annotation) is tuple


def section_type(section: str) -> type[Section]:
    """The model behind a section, or behind one table of an array."""
    annotation = Recipe.model_fields[section].annotation
    found = get_args(annotation)[0] if is_array(section) else annotation
    assert isinstance(found, type)
    assert issubclass(found, Section)
    return found


def keys(section: str) -> dict[str, FieldInfo]:
    """Fields of a section by key."""
    return section_type(section).model_fields


def is_list_of_tables(value: Toml) -> TypeGuard[list[Document]]:
    """True for what an array of tables must be in a document."""
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def takes_text(field: FieldInfo) -> bool:
    """True when the field holds text, so that an override needs no quotes."""
    return field.annotation is str or get_origin(field.annotation) is Literal


def allowed(field: FieldInfo) -> str:
    """What a field accepts, in words: "a whole number, at least 2"."""
    bounds: list[str] = []
    for item in field.metadata:
        match item:
            case annotated_types.Ge(ge=limit):
                bounds.append(f"at least {limit}")
            case annotated_types.Gt(gt=limit):
                bounds.append(f"greater than {limit}")
            case annotated_types.Le(le=limit):
                bounds.append(f"at most {limit}")
            case annotated_types.Lt(lt=limit):
                bounds.append(f"less than {limit}")
            case _:
                pass
    return ", ".join([_type_words(field.annotation), *bounds])


def nearest_keys(section: str, key: str, *, label: str | None = None) -> list[str]:
    """Dotted names of the keys that were probably meant, best first; at most three.

    A similar key of the same section counts, and the same key in another section: placing a key in the wrong table is
    the commonest slip of all. label replaces the section's name in the answer ("data.svamp").
    """
    wanted = key.lower().replace("-", "_")
    own = list(keys(section)) if section in Recipe.model_fields else []
    found = [f"{label or section}.{k}" for k in difflib.get_close_matches(wanted, own, n=1, cutoff=_SIMILAR)]
    others = sorted((s for s in section_names() if s != section), key=lambda s: -_similarity(s, section))
    found += [_dotted(s, wanted) for s in others if wanted in keys(s)]
    if not found:
        elsewhere = {k: _dotted(s, k) for s in reversed(others) for k in keys(s)}
        found = [elsewhere[k] for k in difflib.get_close_matches(wanted, elsewhere, n=1, cutoff=_SIMILAR)]
    return found[:3]


def nearest_sections(section: str) -> list[str]:
    """Sections with a similar name, best first."""
    return difflib.get_close_matches(section.lower().replace("-", "_"), section_names(), n=2, cutoff=0.6)


def did_you_mean(names: list[str]) -> str:
    """ "; did you mean A or B?", or nothing for no names."""
    return f"; did you mean {' or '.join(names)}?" if names else ""


def _type_words(annotation: Any) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(f'"{a}"' for a in arguments)
    if get_origin(annotation) is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return f"a list of {count}{_PLURALS.get(arguments[0], 'values')}"
    return _TYPE_WORDS.get(annotation, "another kind of value")


def _dotted(section: str, key: str) -> str:
    return f"{section}.NAME.{key}" if is_array(section) else f"{section}.{key}"


def _similarity(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio()
