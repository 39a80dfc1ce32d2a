"""agentmath eval RECIPE: accuracy and tool use on held-out tasks."""

from __future__ import annotations

import json
from pathlib import Path

from agentmath.config.recipe import Recipe
from agentmath.orchestration.build import open_parts
from agentmath.orchestration.measure import describe, evaluate_sets


def run(recipe: Recipe, checkpoint: Path | None, json_out: bool) -> None:
    """Measure every held-out set; with json_out one JSON object is printed."""
    with open_parts(recipe, model_path=checkpoint) as parts:
        results = evaluate_sets(parts, purpose="eval")
    if json_out:
        print(json.dumps({name: result.as_json() for name, result in results.items()}, indent=2))
        return
    for result in results.values():
        print(describe("eval", result))
