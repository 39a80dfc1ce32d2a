"""Difficulty bands, from an earlier evaluation of the same problems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agentmath.core.errors import DataError
from agentmath.core.types import JSON

RESULTS = "results.json"
BANDS = (("hard", 0.78), ("medium_hard", 0.90), ("medium_easy", 0.95), ("easy", 1.0))
"""Name and upper end of each band, in shares of right samples; AgentMath's motivation experiment has 100 samples a
problem: 0 to 78, 79 to 90, 91 to 95, 96 to 100 right."""


def band_of(num_right: int, num_samples: int) -> str:
    """The band of a problem; an upper end belongs to its band."""
    # In whole numbers: 0.95 as a float is a little less than 95 of 100.
    return next(name for name, end in BANDS if num_right * 100 <= round(end * 100) * num_samples)


def read_bands(folder: Path, *, plan: JSON) -> dict[str, str]:
    """Band of each problem, by its id, as the evaluation in folder found it.

    Raises DataError where none is, or where its samples are those of the evaluation of this plan: to sort problems by
    the very samples that are compared makes chance look like a difference.
    """
    path = folder.expanduser() / RESULTS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        problems, earlier = found["problems"], found["plan"]
        bands = {p["id"]: band_of(p["num_right"], p["num_graded"]) for p in problems if p["num_graded"]}
    except OSError as error:
        raise DataError(f"evaluation.bands: {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"evaluation.bands: {path} holds no results of this version ({error!r})") from error
    if _draw(earlier) == _draw(plan):
        raise DataError(
            f"evaluation.bands: the samples in {folder} are those that would be measured (same model, mode and seed); "
            "bands must come from others: give another --run.seed"
        )
    return bands


def _draw(plan: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(json.dumps(plan.get(key), sort_keys=True) for key in ("model", "mode", "set", "seed"))
