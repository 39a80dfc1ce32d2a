"""From the name of a scenario and overrides to a checked Scenario."""

from __future__ import annotations

import difflib
import importlib.resources
import math
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from agentmath.config.overrides import Override, parse_overrides
from agentmath.config.scenario import PolicySection, Scenario
from agentmath.config.schema import Document, Toml, allowed, did_you_mean, is_list_of_tables, takes_text
from agentmath.config.section import Section
from agentmath.core.errors import ConfigError

_LARGEST_BYTES = 1 << 20
_MOST_TRAJECTORIES = 10**6
_SIMILAR = 0.6


def load_scenario(name_or_path: str, overrides: Sequence[str] = ()) -> Scenario:
    """A scenario file, or a shipped one by its name, with --section.key VALUE overrides.

    Raises ConfigError that names the file and every fault in it.
    """
    document = _parse(name_or_path)
    for override in parse_overrides(overrides):
        _apply(document, override)
    faults = [*_take_out_unknown(document)]
    try:
        scenario = Scenario.model_validate(_with_tuples(document))
    except ValidationError as error:
        faults += dict.fromkeys(_fault(document, detail["loc"]) for detail in error.errors())
    else:
        faults += _contradictions(scenario)
        if not faults:
            return scenario
    head = f"scenario {name_or_path}: "
    raise ConfigError(head + (faults[0] if len(faults) == 1 else "\n  ".join([f"{len(faults)} faults", *faults])))


def shipped_scenarios() -> dict[str, str]:
    """First comment line of each scenario that comes with the package, by name."""
    return {
        name: entry.read_text("utf-8").partition("\n")[0].lstrip("# ").rstrip() for name, entry in _shipped().items()
    }


def _shipped() -> dict[str, Traversable]:
    entries = importlib.resources.files("agentmath.recipes").joinpath("scenarios").iterdir()
    return {e.name.removesuffix(".toml"): e for e in sorted(entries, key=lambda e: e.name) if e.name.endswith(".toml")}


def _parse(name_or_path: str) -> Document:
    shipped = _shipped()
    try:
        if name_or_path in shipped:
            return tomllib.loads(shipped[name_or_path].read_text("utf-8"))
        with Path(name_or_path).expanduser().open("rb") as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise ConfigError(f"{name_or_path} is too large to be a scenario: more than {_LARGEST_BYTES} bytes")
        return tomllib.loads(content.decode("utf-8").removeprefix("\ufeff"))
    except FileNotFoundError as error:
        near = did_you_mean(difflib.get_close_matches(Path(name_or_path).stem, shipped, n=2, cutoff=0.5))
        missing = f"there is no scenario {name_or_path!r}, neither a file nor a shipped one{near}"
        raise ConfigError(f"{missing}\n  shipped: {', '.join(shipped)}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"scenario {name_or_path} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"scenario {name_or_path} is not UTF-8 text (byte {error.start})") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"scenario {name_or_path!r} cannot be read: {error}") from error


def _keys(section: str) -> dict[str, FieldInfo]:
    """Fields of one section, or of one table of [[policies]]."""
    if section == "policies":
        return dict(PolicySection.model_fields)
    found = Scenario.model_fields[section].annotation
    assert isinstance(found, type)
    assert issubclass(found, Section)
    return dict(found.model_fields)


def _apply(document: Document, override: Override) -> None:
    """Set one value; --policies.NAME.key for one policy, --policies.key for all."""
    section, _, rest = override.path.partition(".")
    name, _, key = rest.rpartition(".")
    if section not in Scenario.model_fields or key not in _keys(section):
        near = [f"--{found}" for found in _nearest(section, key)]
        raise ConfigError(f"--{override.path}: a scenario has no such setting{did_you_mean(near)}")
    value = _value(_keys(section)[key], override)
    if section != "policies":
        table = document.setdefault(section, {})
        if isinstance(table, dict):
            table[key] = value
        return
    if "policies" not in document:
        document["policies"] = [p.model_dump() for p in Scenario().policies]
    tables = document["policies"]
    if not is_list_of_tables(tables):
        return  # said of the file itself
    chosen = [t for t in tables if name in ("", t.get("name") or t.get("balancer", "breakable"))]
    if not chosen:
        raise ConfigError(f"--{override.path}: the scenario has no policy {name!r}")
    for table in chosen:
        table[key] = value


def _value(field: FieldInfo, override: Override) -> Toml:
    if takes_text(field):
        return override.text
    try:
        return tomllib.loads(f"value = {override.text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--{override.path} {override.text!r}: must be {allowed(field)}") from error


def _take_out_unknown(document: Document) -> Iterator[str]:
    """Name every key that no section has, and leave a document of known keys."""
    for section in list(document):
        value = document[section]
        if section not in Scenario.model_fields:
            del document[section]
            known = did_you_mean(difflib.get_close_matches(section, Scenario.model_fields, n=2, cutoff=_SIMILAR))
            yield f"unknown section [{section}]{known or '; the sections are ' + ', '.join(Scenario.model_fields)}"
        elif section == "policies" and not is_list_of_tables(value):
            del document[section]
            yield "policies must be an array of tables: write [[policies]] above each"
        elif section != "policies" and not isinstance(value, dict):
            del document[section]
            yield f"{section} must be a table: write [{section}] above its keys"
        else:
            for table in value if isinstance(value, list) else [value]:
                assert isinstance(table, dict)
                for key in [k for k in table if k not in _keys(section)]:
                    del table[key]
                    near = did_you_mean(_nearest(section, key))
                    yield f"unknown key {section}.{key}{near or '; the keys are ' + ', '.join(_keys(section))}"


def _nearest(section: str, key: str) -> list[str]:
    """Dotted names of what was probably meant: of this section first, then the same key of another one."""
    wanted = key.lower().replace("-", "_")
    own = list(_keys(section)) if section in Scenario.model_fields else []
    found = [f"{section}.{k}" for k in difflib.get_close_matches(wanted, own, n=1, cutoff=_SIMILAR)]
    found += [f"{other}.{wanted}" for other in Scenario.model_fields if other != section and wanted in _keys(other)]
    if not found:
        elsewhere = {k: f"{other}.{k}" for other in Scenario.model_fields for k in _keys(other)}
        found = [elsewhere[k] for k in difflib.get_close_matches(wanted, elsewhere, n=1, cutoff=_SIMILAR)]
    return found[:2]


def _fault(document: Document, location: Sequence[int | str]) -> str:
    section = str(location[0])
    if len(location) == 1:  # the array itself
        return f"{section}: at least one is needed"
    table = document[section]
    inside = location[1:]
    if isinstance(table, list):
        table, inside = table[int(location[1])], location[2:]
    assert isinstance(table, dict)
    key = str(inside[0])
    field = _keys(section)[key]
    if get_origin(field.annotation) is tuple and isinstance(table[key], list):
        return f"{section}.{key} = {table[key]}: must be a list of some of lockstep, batch, segments, quota, async"
    return f"{section}.{key} = {table[key]!r}: must be {allowed(field)}"


def _contradictions(scenario: Scenario) -> Iterator[str]:
    """What must hold between sections."""
    for name, table in tables(scenario):
        for key in type(table).model_fields:
            number = getattr(table, key)
            if isinstance(number, float) and not math.isfinite(number):
                yield f"{name}.{key} = {number}: must be a finite number"
    workload, engines = scenario.workload, scenario.engines
    longest = longest_context(scenario)
    if longest > engines.kv_tokens:
        yield (
            f"a trajectory of workload.prompt_tokens + workload.max_sampled_tokens + tool output may have {longest} "
            f"tokens, but one engine holds engines.kv_tokens = {engines.kv_tokens}: lower the one or raise the other"
        )
    if workload.groups_per_step * workload.group_size > _MOST_TRAJECTORIES:
        yield f"workload: {workload.groups_per_step} groups of {workload.group_size} are more than can be simulated"
    for policy in scenario.policies:
        room = math.floor(policy.kv_share * engines.kv_tokens * engines.count)
        if policy.kv_share > 0 and room < longest:
            yield (
                f"policies.kv_share = {policy.kv_share} of all KV caches are {room} tokens, less than one trajectory "
                f"may have ({longest}): raise it, or take 0 to admit everything"
            )
    modes = scenario.scheduling.modes
    if len(set(modes)) < len(modes):
        yield f"scheduling.modes = {list(modes)}: name each mode once"
    names = [policy_name(p) for p in scenario.policies]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"two policies are named {name}: give each a name of its own"
    mode, _, policy = scenario.scheduling.baseline.partition("/")
    if mode not in scenario.scheduling.modes or (policy and policy not in names):
        yield (
            f"scheduling.baseline = {scenario.scheduling.baseline!r}: must be one of scheduling.modes, "
            f"{', '.join(scenario.scheduling.modes)}, or MODE/POLICY with one of {', '.join(names)}"
        )


def tables(scenario: Scenario) -> Iterator[tuple[str, Section]]:
    """All tables of a scenario with the names of their sections, each policy one."""
    for name in Scenario.model_fields:
        value: Section | tuple[Section, ...] = getattr(scenario, name)
        for table in value if isinstance(value, tuple) else (value,):
            yield name, table


def longest_context(scenario: Scenario) -> int:
    """Tokens of the longest context that a trajectory may have."""
    tools = scenario.tools
    calls = tools.max_calls if tools.tokens_per_call > 0 else 0
    return scenario.workload.prompt_tokens + scenario.workload.max_sampled_tokens + calls * tools.output_tokens


def policy_name(policy: PolicySection) -> str:
    """What its rows are called."""
    return policy.name or policy.balancer


def _with_tuples(value: Toml) -> object:
    match value:
        case dict():
            return {k: _with_tuples(v) for k, v in value.items()}
        case list():
            return tuple(_with_tuples(v) for v in value)
        case _:
            return value
