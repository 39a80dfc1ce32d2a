"""Command-line overrides: --section.key VALUE, --section.key=VALUE, --data.NAME.key VALUE."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentmath.config.schema import (
    Document,
    Toml,
    did_you_mean,
    is_array,
    is_list_of_tables,
    keys,
    nearest_keys,
    nearest_sections,
    section_names,
    takes_text,
)
from agentmath.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One setting given on the command line, its address not yet looked up."""

    path: str
    """Without dashes: "data.svamp.path"."""
    text: str
    """The value as it was typed."""


def parse_overrides(arguments: Sequence[str]) -> list[Override]:
    """Read overrides in either spelling. Raises ConfigError for words that are none, and for a missing value."""
    return list(_read(list(arguments)))


def apply_overrides(document: Document, overrides: Sequence[Override]) -> set[tuple[str, int, str]]:
    """Set the values in document, in place; returns the addresses (section, index or -1, key) that were set.

    Values are read as TOML; text needs no quotes. Raises ConfigError for an address that does not exist, is ambiguous
    or is given twice.
    """
    seen: dict[tuple[str, int, str], Override] = {}
    resolved = [(_address(document, o), o) for o in overrides]
    for address, override in resolved:
        if address in seen:
            raise ConfigError(
                f"--{override.path} is given twice, with {seen[address].text!r} and {override.text!r}; give it once"
            )
        seen[address] = override
    for (section, index, key), override in resolved:
        table_of(document, section, index)[key] = _value(section, key, override.text)
    return set(seen)


def table_of(document: Document, section: str, index: int) -> Document:
    """The table at an address, made if a plain section has none yet; index is -1 for those."""
    found = document.setdefault(section, {})
    table = found[index] if isinstance(found, list) else found
    assert isinstance(table, dict), f"[{section}] was checked to be a table"
    return table


def _read(arguments: list[str]) -> Iterator[Override]:
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if not word.startswith("--") or word == "--":
            raise ConfigError(f"unexpected argument {word!r}; overrides are written --section.key VALUE")
        path, equals, text = word.removeprefix("--").partition("=")
        if "." not in path:
            raise ConfigError(_not_an_override(path))
        if not equals:
            position += 1
            if position == len(arguments) or arguments[position].startswith("--"):
                raise ConfigError(
                    f"--{path} needs a value: --{path} VALUE (a value that begins with -- as --{path}=VALUE)"
                )
            text = arguments[position]
        yield Override(path=path, text=text)
        position += 1


def _not_an_override(path: str) -> str:
    hint = did_you_mean([f"--{name}" for name in nearest_keys("", path)])
    return f"unknown option --{path}{hint or '; overrides are written --section.key VALUE'}"


def _address(document: Document, override: Override) -> tuple[str, int, str]:
    section, _, rest = override.path.partition(".")
    if section not in section_names():
        near = [f"--{name}.{rest}" for name in nearest_sections(section)] or [
            f"--{name}" for name in nearest_keys(section, rest.rpartition(".")[2])
        ]
        known = "" if near else f"; sections are {', '.join(section_names())}"
        raise ConfigError(f"--{override.path}: there is no section {section!r}{did_you_mean(near)}{known}")
    name, _, key = rest.rpartition(".")
    if is_array(section):
        index = _index(document, section, name, override.path)
        label = f"{section}.{name}"
    else:
        index, key, label = -1, rest, section
        if not isinstance(document.get(section, {}), dict):
            raise ConfigError(f"--{override.path}: {section} is not a table in the recipe; write [{section}] there")
    if key not in keys(section):
        near = [f"--{n}" for n in nearest_keys(section, key, label=label)]
        known = "" if near else f"; its keys are {', '.join(keys(section))}"
        raise ConfigError(f"--{override.path}: there is no key {key!r} in [{section}]{did_you_mean(near)}{known}")
    return section, index, key


def _index(document: Document, section: str, name: str, path: str) -> int:
    tables = document.get(section, [])
    if not is_list_of_tables(tables):
        raise ConfigError(f"--{path}: {section} is not an array of tables in the recipe; write [[{section}]] there")
    names = [str(t.get("name", "")) for t in tables]
    if not name:
        example = f"--{section}.{names[0] if names else 'NAME'}.{path.partition('.')[2]}"
        raise ConfigError(f"--{path}: name which {section} is meant: {example}")
    if names.count(name) > 1:
        raise ConfigError(
            f"--{path}: {names.count(name)} tables of [[{section}]] are called {name!r}; use --{section}.INDEX"
        )
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < len(tables):
        return int(name)
    known = ", ".join(n or str(i) for i, n in enumerate(names)) or "none"
    raise ConfigError(f"--{path}: the recipe has no [[{section}]] called {name!r}; it has: {known}")


def _value(section: str, key: str, text: str) -> Toml:
    try:
        parsed: Document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = parsed["value"] if parsed.keys() == {"value"} else text
    if takes_text(keys(section)[key]) and not isinstance(value, str):
        return text
    return value
