"""The reference of a KL penalty is what the supervised stage ended with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentmath.config.load import load_recipe  # noqa: E402
from agentmath.core.errors import CheckpointError  # noqa: E402
from agentmath.data.mixture import load_pool  # noqa: E402
from agentmath.orchestration.build import build_policy, used_sources  # noqa: E402
from agentmath.orchestration.reference import reference_policy  # noqa: E402
from agentmath.training import checkpoint  # noqa: E402

TINY = str(Path(__file__).parents[2] / "fixtures" / "tiny.toml")


def run_with(folder: Path, *overrides: str) -> Any:
    """What a run shows of itself to reference_policy."""
    recipe = load_recipe(TINY, [f"--{o}" for o in overrides])
    pool = load_pool(used_sources(recipe.data), seed=0)
    return SimpleNamespace(
        parts=SimpleNamespace(recipe=recipe, pool=pool), directory=SimpleNamespace(checkpoints=folder)
    )


def test_without_a_penalty_there_is_none_and_no_checkpoint_is_asked_for(tmp_path: Path) -> None:
    assert reference_policy(run_with(tmp_path)) is None


def test_it_has_the_weights_of_the_newest_supervised_checkpoint_and_is_frozen(tmp_path: Path) -> None:
    run = run_with(tmp_path, "algorithm.kl=k3")
    policy = build_policy(run.parts.recipe, run.parts.pool)
    for step in (1, 2):
        with torch.no_grad():
            for parameter in policy.module.parameters():
                parameter.add_(0.01)
        checkpoint.save(tmp_path / "sft", step, checkpoint.Parts(model=policy.module.state_dict()), keep=2)
    reference = reference_policy(run)
    assert reference is not None
    expected = dict(policy.named_parameters())
    assert all(torch.equal(p, expected[name]) for name, p in reference.named_parameters())
    assert not any(p.requires_grad for _, p in reference.named_parameters())
    ids = torch.arange(12) % 50
    with torch.no_grad():
        hidden = [p.forward_hidden(ids, torch.arange(12), [12]) for p in (policy, reference)]
    assert torch.equal(*hidden)


def test_a_run_without_that_checkpoint_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r'sft holds no checkpoint .* algorithm.kl = "k2" measures from them'):
        reference_policy(run_with(tmp_path, "algorithm.kl=k2"))
