"""What is evaluated: weights, a run, or a served model; and the recipe of nothing but that evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from agentmath.config.check import is_held_out
from agentmath.config.curriculum import CurriculumSection, stages
from agentmath.config.model import ModelSection
from agentmath.config.recipe import Recipe
from agentmath.config.training import OptimizerSection, SFTSection, TrainingSection
from agentmath.core.errors import ConfigError
from agentmath.core.types import JSON
from agentmath.telemetry.run_dir import MANIFEST, MODEL
from agentmath.training import checkpoint
from agentmath.training.policy import Policy

_WHOLE_BYTES = 1 << 30
_END_BYTES = 64 << 20
_COUNTED = (".safetensors", ".bin", ".gguf", ".json", ".model")


def evaluation_recipe(recipe: Recipe, model_path: Path | None) -> Recipe:
    """A recipe that evaluates and trains nothing, complete in itself. A new model keeps its sources: its vocabulary is
    made of them."""
    path = str(model_path) if model_path is not None else recipe.model.path
    fixed: dict[str, object] = {
        "training": TrainingSection(steps=0),
        "optimizer": OptimizerSection(),
        "sft": SFTSection(),
        "sft_optimizer": OptimizerSection(),
        "rollout": stages(recipe.rollout, recipe.curriculum)[-1],
        "curriculum": CurriculumSection(),
    }
    if path:
        fixed["model"] = ModelSection(path=path, dtype=recipe.model.dtype)
    if path or recipe.endpoint.url:
        fixed["data"] = tuple(source for source in recipe.data if is_held_out(source))
    return recipe.model_copy(update=fixed)


def weights_of_run(run_dir: Path) -> Path:
    """The exported model of a run, else its newest checkpoint. Raises ConfigError when it has neither yet."""
    model = run_dir / MODEL
    if (model / "config.json").is_file():
        return model
    for stage in ("rl", "sft"):
        if (path := checkpoint.latest(run_dir / "checkpoints" / stage)) is not None:
            return path
    raise ConfigError(f"{run_dir} has neither an exported model nor a checkpoint yet: there is nothing to measure")


def load_checkpoint(policy: Policy, path: Path) -> None:
    """Give a policy the weights of a training checkpoint."""
    _, held = checkpoint.load(path)
    policy.module.load_state_dict(held.model)


def describe_model(recipe: Recipe, restored: Path | None) -> JSON:
    """Who is measured, for results: a digest says which weights. restored: the checkpoint whose weights were loaded."""
    endpoint = recipe.endpoint
    if endpoint.url:
        kept = ("url", "model", "api", "prefill", "tokenizer")
        ids = f"re-encoded by {endpoint.tokenizer}" if endpoint.tokenizer else "pieces of text as the server sent them"
        return {"kind": "endpoint", **{key: getattr(endpoint, key) for key in kept}, "token_ids": ids}
    if restored is not None:
        digest = hashlib.blake2b((restored / MANIFEST).read_bytes(), digest_size=16).hexdigest()
        return {"kind": "checkpoint", "path": str(restored), "digest": digest, "dtype": recipe.model.dtype}
    path = Path(recipe.model.path).expanduser()
    if recipe.model.path and path.exists():
        named = {"path": recipe.model.path, "dtype": recipe.model.dtype}
        return {"kind": "weights", **named, "digest": _digest_of_files(path)}
    if recipe.model.path:
        return {"kind": "hub", "path": recipe.model.path, "dtype": recipe.model.dtype}
    return {"kind": "new", "seed": recipe.run.seed, **recipe.model.model_dump(exclude={"path"})}


def _digest_of_files(path: Path) -> str:
    """Of names, sizes and contents; of a file beyond a gibibyte its first and last 64 MiB stand for the content."""
    digest = hashlib.blake2b(digest_size=16)
    files = [path] if path.is_file() else sorted(f for f in path.iterdir() if f.suffix in _COUNTED)
    for file in files:
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        for part in _parts(file):
            digest.update(part)
    return digest.hexdigest()


def _parts(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= _WHOLE_BYTES:
            while part := stream.read(1 << 20):
                yield part
            return
        yield stream.read(_END_BYTES)
        stream.seek(size - _END_BYTES)
        yield stream.read(_END_BYTES)
