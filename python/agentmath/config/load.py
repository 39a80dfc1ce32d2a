"""From a recipe's name and overrides to a checked Recipe; the one way in.

load_recipe answers for one value at a time: known keys, right types, allowed ranges. check_recipe answers for what must
hold between sections.
"""

from __future__ import annotations

import difflib
import importlib.resources
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentmath.config.check import check_recipe
from agentmath.config.dump import diff_recipes, dump_recipe, toml_value
from agentmath.config.overrides import apply_overrides, parse_overrides, table_of
from agentmath.config.recipe import Recipe
from agentmath.config.schema import (
    Document,
    Toml,
    allowed,
    did_you_mean,
    is_array,
    is_list_of_tables,
    keys,
    nearest_keys,
    nearest_sections,
    section_names,
)
from agentmath.config.section import Section
from agentmath.core.errors import ConfigError

__all__ = ["check_recipe", "diff_recipes", "dump_recipe", "load_recipe", "shipped_recipes"]

Address = tuple[str, int, str]
"""(section, index in an array of tables or -1, key)."""
_LONGEST_SHOWN = 60
_LARGEST_RECIPE_BYTES = 1 << 20


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Load a recipe file, or a shipped recipe by its name, and apply command-line overrides.

    Raises ConfigError that names the file and every fault in it: TOML errors with their line, unknown keys with the
    nearest valid one, values of a wrong type or out of range with what is allowed.
    """
    origin, text = _read(name_or_path)
    document = _parse(text, origin)
    overridden = apply_overrides(document, parse_overrides(overrides))
    faults = list(_take_out_unknown(document))
    recipe = _validate(document, overridden, faults)
    if recipe is None or faults:
        head = f"recipe {origin}: "
        raise ConfigError(head + (faults[0] if len(faults) == 1 else "\n  ".join([f"{len(faults)} faults", *faults])))
    return recipe


def shipped_recipes() -> dict[str, str]:
    """First comment line of each recipe that comes with the package, by name."""
    found: dict[str, str] = {}
    for name, entry in _shipped_files().items():
        first = entry.read_text(encoding="utf-8").partition("\n")[0]
        found[name] = first.lstrip("# ").rstrip() if first.startswith("#") else ""
    return found


def _shipped_files() -> dict[str, Traversable]:
    entries = importlib.resources.files("agentmath.recipes").iterdir()
    return {e.name.removesuffix(".toml"): e for e in sorted(entries, key=lambda e: e.name) if e.name.endswith(".toml")}


def _read(name_or_path: str) -> tuple[str, str]:
    shipped = _shipped_files()
    if name_or_path in shipped:
        return name_or_path, shipped[name_or_path].read_text(encoding="utf-8")
    try:
        if not name_or_path:
            raise ConfigError(f"the recipe's name is empty; shipped recipes: {', '.join(shipped)}")
        path = Path(name_or_path).expanduser()
        if path.is_dir():
            inside = ", ".join(str(p) for p in sorted(path.glob("*.toml"))[:3])
            raise ConfigError(f"{name_or_path} is a folder, not a recipe" + (f"; it holds {inside}" if inside else ""))
        with path.open("rb") as stream:
            content = stream.read(_LARGEST_RECIPE_BYTES + 1)
        if len(content) > _LARGEST_RECIPE_BYTES:
            raise ConfigError(f"{name_or_path} is too large to be a recipe: more than {_LARGEST_RECIPE_BYTES} bytes")
        return str(path), content.decode("utf-8")
    except FileNotFoundError as error:
        near = difflib.get_close_matches(Path(name_or_path).name.removesuffix(".toml"), shipped, n=2, cutoff=0.5)
        missing = f"there is no recipe {name_or_path!r}, neither a file nor a shipped one{did_you_mean(near)}"
        raise ConfigError(f"{missing}\n  shipped: {', '.join(shipped) or 'none'}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"recipe {name_or_path} is not UTF-8 text (byte {error.start})") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"recipe {name_or_path!r} cannot be read: {error}") from error


def _parse(text: str, origin: str) -> Document:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"recipe {origin} is not valid TOML: {error}{_line_at(error, text)}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"recipe {origin} cannot be parsed: {error}") from error


def _line_at(error: tomllib.TOMLDecodeError, text: str) -> str:
    found = re.search(r"line (\d+)", str(error))
    if not found:
        return ""
    line = text.split("\n")[int(found[1]) - 1].strip()
    return f"\n  {found[1]} | {line}"


def _take_out_unknown(document: Document) -> Iterator[str]:
    """Name every key that no section has, and leave a document of known keys."""
    for section in list(document):
        value = document[section]
        if section not in section_names():
            yield _unknown_section(section, document.pop(section))
        elif is_array(section):
            if not is_list_of_tables(value):
                yield f"{section} must be an array of tables: write [[{section}]] above each"
                del document[section]
                continue
            for index, table in enumerate(value):
                yield from _take_out_unknown_keys(section, table, f"{section}.{table.get('name', index)}")
        elif not isinstance(value, dict):
            yield f"{section} must be a table: write [{section}] above its keys"
            del document[section]
        else:
            yield from _take_out_unknown_keys(section, value, section)


def _take_out_unknown_keys(section: str, table: Document, label: str) -> Iterator[str]:
    for key in [k for k in table if k not in keys(section)]:
        del table[key]
        near = did_you_mean(nearest_keys(section, key, label=label))
        yield f"unknown key {label}.{key}{near or '; the keys are ' + ', '.join(keys(section))}"


def _unknown_section(name: str, value: Toml) -> str:
    if isinstance(value, dict) or is_list_of_tables(value):
        near = nearest_sections(name)
        return f"unknown section [{name}]{did_you_mean(near) or '; the sections are ' + ', '.join(section_names())}"
    near = did_you_mean(nearest_keys("", name))
    return f"unknown key {name} outside of any section{near or '; keys belong under a [section]'}"


def _validate(document: Document, overridden: set[Address], faults: list[str]) -> Recipe | None:
    """The recipe, or None with one more sentence in faults for each value that is not allowed."""
    try:
        recipe = Recipe.model_validate(_with_tuples(document))
    except ValidationError as error:
        faults += dict.fromkeys(_fault(document, overridden, detail["loc"]) for detail in error.errors())
        return None
    for address in _unusable_values(recipe):
        faults.append(_fault(document, overridden, address))
    return recipe


def _fault(document: Document, overridden: set[Address], location: Sequence[int | str]) -> str:
    section = str(location[0])
    index = int(location[1]) if is_array(section) else -1
    key = str(location[2] if is_array(section) else location[1])
    table = table_of(document, section, index)
    label = section if index < 0 else f"{section}.{table.get('name', index)}"
    rule = f"must be {allowed(keys(section)[key])}"
    if key not in table:
        return f"{label} lacks {key}: it {rule}"
    shown = toml_value(table[key]).encode("utf-8", "backslashreplace").decode()
    if len(shown) > _LONGEST_SHOWN:
        shown = shown[:_LONGEST_SHOWN] + "..."
    given = " (given on the command line)" if (section, index, key) in overridden else ""
    return f"{label}.{key} = {shown}{given}: {rule}"


def _unusable_values(recipe: Recipe) -> Iterator[Sequence[int | str]]:
    """Addresses of numbers that are not finite and of texts that no file can hold."""
    for section in section_names():
        value: Section | tuple[Section, ...] = getattr(recipe, section)
        for index, table in enumerate(value if isinstance(value, tuple) else (value,)):
            for key in keys(section):
                if not _is_usable(getattr(table, key)):
                    yield (section, index, key) if is_array(section) else (section, key)


def _is_usable(value: Toml | tuple[Toml, ...]) -> bool:
    match value:
        case tuple():
            return all(map(_is_usable, value))
        case str():
            return value.encode("utf-8", "replace").decode("utf-8") == value
        case float():
            return math.isfinite(value)
        case _:
            return True


def _with_tuples(value: Toml) -> Any:
    match value:
        case dict():
            return {k: _with_tuples(v) for k, v in value.items()}
        case list():
            return tuple(_with_tuples(v) for v in value)
        case _:
            return value
