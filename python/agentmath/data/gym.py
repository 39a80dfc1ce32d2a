"""Tasks of the reasoning-gym library whose answer is one number: the only file that imports it."""

from __future__ import annotations

import difflib
from typing import Any

from agentmath.core.errors import ConfigError, DataError
from agentmath.core.types import Task

DATASETS = (
    "aiw", "basic_arithmetic", "chain_sum", "coin_flip", "count_bits", "count_primes", "decimal_chain_sum", "dice",
    "fraction_simplification", "gcd", "gsm_symbolic", "lcm", "leg_counting", "number_sequence", "products",
    "simple_equations", "simple_geometry",
)  # fmt: skip
"""Tried: each question has one right answer, a number that is compared by value. Not taken are puzzles whose answer is
a grid or one of many, and power_function, whose answer is rounded in the question and not in the data."""


def gym_tasks(dataset: str, num: int, seed: int) -> list[Task]:
    """num tasks of a dataset. Equal seeds give equal tasks, by one version of the library.

    Raises ConfigError for a dataset that is none of DATASETS and where the library is missing.
    """
    if dataset not in DATASETS:
        near = difflib.get_close_matches(dataset, DATASETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(DATASETS)}"
        raise ConfigError(f"reasoning_gym has no dataset {dataset!r} whose answers can be compared; {hint}")
    try:
        import reasoning_gym
    except ImportError as fault:
        raise ConfigError("kind reasoning_gym needs the reasoning-gym library: pip install 'agentmath[gym]'") from fault
    made: Any = reasoning_gym.create_dataset(dataset, seed=seed % 2**31, size=num)
    return [_task(made[i], dataset, i) for i in range(num)]


def _task(entry: dict[str, Any], dataset: str, index: int) -> Task:
    question, answer = entry["question"], entry["answer"]
    if not isinstance(question, str) or not isinstance(answer, str) or not answer.strip():
        raise DataError(f"reasoning_gym {dataset}, task {index}: expected a question and an answer, found {answer!r}")
    return Task(id=f"{dataset}-{index}", question=question.strip(), answer=answer.strip(), subject=dataset)
