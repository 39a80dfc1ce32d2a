"""What data sources hold, in figures, before anything is trained on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentmath.cli.arguments import read_recipe
from agentmath.cli.errors import warn
from agentmath.config.data import GENERATED, DataSection
from agentmath.config.load import shipped_recipes
from agentmath.core.errors import ConfigError
from agentmath.core.types import Task
from agentmath.data.overview import Overview, overview
from agentmath.data.sources import load_source

NUM_SAMPLES = 3
_SHOWN_CHARS = 160


def run(words: Sequence[str], settings: Mapping[str, Any], *, json_out: bool) -> None:
    """Load each source that the words mean and print its figures; settings are those of files.

    Raises ConfigError or DataError.
    """
    sections, seed = _sections(words, settings)
    found: list[Overview] = []
    for section in sections:
        source = load_source(section, seed=seed)
        warn(source.counts.warnings(source.name))
        found.append(overview(source, NUM_SAMPLES))
        if not json_out:
            print("\n".join([*([""] if len(found) > 1 else []), *_page(found[-1])]))
    if json_out:
        print(json.dumps([asdict(entry) for entry in found], indent=2))


def _sections(words: Sequence[str], settings: Mapping[str, Any]) -> tuple[list[DataSection], int]:
    """The sources of a recipe, or one for each file, and the seed of generators."""
    if any(word in shipped_recipes() or word.endswith(".toml") for word in words):
        if settings:
            key = next(iter(settings))
            raise ConfigError(f"--{key.replace('_', '-')} goes with files; in a recipe write --data.NAME.{key} VALUE")
        recipe, warnings = read_recipe(words, None)
        warn(warnings)
        sections = [section for section in recipe.data if section.path or section.kind in GENERATED]
        if not sections:
            raise ConfigError("the recipe has no data source with something to read")
        return sections, recipe.run.seed
    unknown = next((word for word in words if word.startswith("--")), None)
    if unknown:
        raise ConfigError(f"unknown option {unknown} for files; see `agentmath data --help`")
    if not words:
        raise ConfigError("name a recipe or data files")
    return [DataSection(name=_name(word), path=word, bad_rows="skip", **settings) for word in words], 0


def _name(path: str) -> str:
    return Path(path).name.partition(".")[0] or path


def _page(found: Overview) -> Iterator[str]:
    counts = found.counts
    yield f"{found.name}: {counts['rows']:,} rows read, {counts['kept']:,} tasks kept"
    left_out = {"repeats": counts["repeats"], "conflicting": counts["conflicting"]}
    left_out |= {f"bad ({kind})": num for kind, num in counts["bad"].items()}
    left_out |= {f"outside {key}": num for key, num in counts["outside"].items()}
    lines = {
        "left out": _numbers({kind: num for kind, num in left_out.items() if num}) or "none",
        "cut": f"sentences on how to answer, from {counts['instructions']:,} questions"
        if counts["instructions"]
        else "",
        "answers": _numbers(found.answers),
        "question": ", ".join(f"{p}% up to {length:,}" for p, length in found.question_chars.items()) + " characters",
        "difficulty": ", ".join(f"{band}: {num:,}" for band, num in found.bands.items()),
    }
    for label, text in lines.items():
        if text:
            yield f"  {label:<10}  {text}"
    for task in found.samples:
        yield f"  {task.id}: {_shown(task)}"


def _numbers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{num:,} {kind}" for kind, num in counts.items())


def _shown(task: Task) -> str:
    question = " ".join(task.question.split())
    if len(question) > _SHOWN_CHARS:
        question = f"{question[:_SHOWN_CHARS]}..."
    return f"{question} -> {task.answer[:_SHOWN_CHARS]}"
