"""Known faults put back in, one at a time: a law of the suite must find each. A law that finds none proves nothing."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import loss_laws  # noqa: E402
from agentmath.algorithms import estimators  # noqa: E402
from agentmath_kernels import corrections, divergence, policy_terms, surrogates  # noqa: E402
from agentmath_kernels import policy_loss as operation  # noqa: E402

Patch = pytest.MonkeyPatch
module: Any = importlib.import_module("agentmath_kernels.policy_loss")  # the package has a function of that name


@contextmanager
def denominator_of_all_tokens(patch: Patch) -> Iterator[Any]:
    """The mask acts above the line alone: the mean is over all tokens of the batch."""
    real = module._scale
    patch.setattr(module, "_scale", lambda rows, hidden, weights, n: real(rows, hidden, weights, hidden.shape[0]))
    yield operation


@contextmanager
def denominator_of_the_micro_batch(patch: Patch) -> Iterator[Any]:
    """Each piece divides by its own tokens."""
    real = module._scale
    patch.setattr(
        module, "_scale", lambda rows, hidden, weights, n: real(rows, hidden, weights, max(1, rows.index.numel()))
    )
    yield operation


@contextmanager
def padding_counts(patch: Patch) -> Iterator[Any]:
    """Ids outside the vocabulary are bent to ids inside, as a clamped gather does."""
    yield lambda hidden, weight, targets, mask, **rest: operation(
        hidden, weight, targets.clamp(0, weight.shape[0] - 1), mask, **rest
    )


@contextmanager
def own_count_without_a_guard(patch: Patch) -> Iterator[Any]:
    """sum / mask.sum(), which is 0 / 0 where nothing is in the mask."""

    def op(*args: Any, num_trainable_tokens: int, **rest: Any) -> Any:
        out = operation(*args, num_trainable_tokens=num_trainable_tokens, **rest)
        return replace(out, loss=out.loss * num_trainable_tokens / torch.tensor(float(out.num_rows)))

    yield op


@contextmanager
def mask_after_the_arithmetic(patch: Patch) -> Iterator[Any]:
    """Every token is computed and multiplied by 0 or 1 in the end."""

    def op(hidden: Any, weight: Any, targets: Any, mask: Any, **rest: Any) -> Any:
        return operation(hidden, weight, targets, None, row_weights=mask.double(), **rest)

    yield op


@contextmanager
def unbounded_exponentials(patch: Patch) -> Iterator[Any]:
    """exp of every log ratio as it comes."""
    for part in (surrogates, corrections, divergence):
        patch.setattr(part, "MAX_LOG_RATIO", math.inf)
    yield operation


@contextmanager
def importance_weight_dropped(patch: Patch) -> Iterator[Any]:
    """Off-policy tokens count in full."""
    patch.setattr(policy_terms, "_weights", lambda *_: None)
    yield operation


LOSS_FAULTS: list[tuple[Callable[[Patch], Any], Callable[[Any], None]]] = [
    (denominator_of_all_tokens, loss_laws.tokens_outside_the_mask_count_neither_above_nor_below_the_line),
    (denominator_of_the_micro_batch, loss_laws.a_split_into_micro_batches_changes_nothing),
    (padding_counts, loss_laws.an_id_outside_the_vocabulary_is_refused_where_it_is_a_target),
    (own_count_without_a_guard, loss_laws.nothing_in_the_mask_is_loss_zero),
    (mask_after_the_arithmetic, loss_laws.nothing_reaches_the_loss_from_outside_the_mask),
    (unbounded_exponentials, loss_laws.ratios_and_penalties_that_overflow_stay_finite),
    (importance_weight_dropped, loss_laws.the_importance_weight_multiplies),
]


@pytest.mark.parametrize("law", loss_laws.LOSS_LAWS, ids=lambda law: law.__name__)
def test_the_loss_keeps_every_law(law: Callable[[Any], None]) -> None:
    law(operation)


@pytest.mark.parametrize(("fault", "law"), LOSS_FAULTS, ids=lambda f: f.__name__)
def test_a_fault_of_the_loss_is_found(fault: Any, law: Callable[[Any], None], monkeypatch: Patch) -> None:
    with fault(monkeypatch) as op, pytest.raises(AssertionError):
        law(op)


def test_every_law_of_the_loss_finds_a_fault() -> None:
    assert {law for _, law in LOSS_FAULTS} == set(loss_laws.LOSS_LAWS)


def residue_over_itself(rewards: list[float], section: Any) -> Any:
    """float32 and a tiny epsilon: what rounding leaves of equal rewards passes for an advantage."""
    r = np.asarray(rewards, dtype=np.float32)
    return (r - r.mean()) / (r.std(ddof=1) + 1e-6)


def deviation_of_the_others_alone(rewards: list[float], section: Any) -> Any:
    """Leave-one-out that divides by whatever deviation the others have."""
    r = np.asarray(rewards, dtype=np.float32)
    others = [np.delete(r, i) for i in range(r.size)]
    return np.array([(r[i] - o.mean()) / (o.std(ddof=1) + 1e-6) for i, o in enumerate(others)])


@pytest.mark.parametrize("law", loss_laws.ADVANTAGE_LAWS, ids=lambda law: law.__name__)
def test_advantages_keep_every_law(law: Callable[[Any], None]) -> None:
    law(estimators.of_group)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        (residue_over_itself, loss_laws.equal_rewards_have_no_advantage),
        (deviation_of_the_others_alone, loss_laws.one_against_equal_others_is_not_blown_up),
    ],
    ids=lambda f: f.__name__,
)
def test_a_fault_of_advantages_is_found(fault: Any, law: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        law(fault)
