"""Golden cases: small inputs of a loss or an advantage, and what has to come out.

A case is one JSON object, so that any framework in any language can answer it. Numbers that JSON has not are written
as the texts "nan", "inf" and "-inf".

kind "loss": what one optimiser step minimises, as a function of the log-probs of S sequences of T tokens.

    settings  surrogate, clip_low, clip_high, dual_clip (null: none), aggregation, horizon_tokens,
              correction, correction_low, correction_high, kl, kl_coef
    inputs    logprobs [S][T] current; old_logprobs [S][T] of the proximal policy, null: the current ones held constant;
              behaviour_logprobs [S][T], null: the proximal ones; reference_logprobs [S][T] or null;
              mask [S][T] 1 for tokens that the model sampled; advantages [S]; prompts [S] names of prompts;
              microbatches [[s, ...], ...] how the step is cut, its pieces are summed
    expected  loss, gradient [S][T] by logprobs

kind "advantage":

    settings  advantage, std_floor
    inputs    rewards [G] of one group
    expected  advantages [G]
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from agentmath.core.errors import DataError

Answer = Mapping[str, Any]
"""What a framework gives for a case: the names of Case.expected, or "unsupported" and a reason."""

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question and its answer."""

    id: str
    kind: str
    """"loss" or "advantage"."""
    why: str
    """The fault that it finds."""
    settings: Mapping[str, Any]
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any]
    tolerance: float
    """Allowed |got - expected| / (1 + |expected|), for arithmetic in float32."""


def shipped_cases() -> list[Case]:
    """The cases that come with the package, in order."""
    text = resources.files("agentmath.conformance").joinpath("cases.jsonl").read_text("utf-8")
    return [Case(**numbers(json.loads(line))) for line in text.splitlines() if line.strip()]


def written(case: Case) -> str:
    """One line of JSON."""
    return json.dumps(words(asdict(case)), allow_nan=False)


def read_answers(lines: Iterable[str], name: str) -> Iterator[tuple[str, Answer]]:
    """(case id, answer) of every line {"id": ..., ...}. Raises DataError that names the line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as fault:
            raise DataError(f"{name}, line {number}: not JSON ({fault.msg}): expected one answer a line") from fault
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise DataError(f'{name}, line {number}: expected an object with the "id" of a case, found {line[:60]!r}')
        yield row["id"], numbers({k: v for k, v in row.items() if k != "id"})


def numbers(value: Any) -> Any:
    """JSON values with the texts "nan", "inf" and "-inf" as numbers."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value


def words(value: Any) -> Any:
    """The other way round."""
    if isinstance(value, Mapping):
        return {key: words(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [words(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
