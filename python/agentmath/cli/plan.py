"""agentmath plan: what a recipe amounts to, in tasks, tokens, updates and bytes, before anything runs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from agentmath.cli.doctor import available_memory_bytes
from agentmath.cli.model_shape import ModelShape, read_shape
from agentmath.config.curriculum import stages
from agentmath.config.recipe import Recipe

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2}
_ASSUMED_SHARE = 0.5
"""Mean length over longest length, where nothing has been measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of the plan."""

    group: str
    """Reinforcement learning, supervised, evaluation, model or memory."""
    name: str
    value: int | str
    unit: str = ""
    """tasks, tokens, bytes, ...; empty for text."""
    note: str = ""
    """How the number comes about."""


def plan(recipe: Recipe) -> list[Row]:
    """Batch arithmetic, tokens per step, parameters and a memory estimate. No weights are loaded.

    Raises ConfigError when the model's path holds no model.
    """
    shape = read_shape(recipe.model)
    return [
        *_model(recipe, shape),
        *_supervised(recipe),
        *_reinforcement(recipe),
        *_evaluation(recipe),
        *_memory(recipe, shape),
    ]


def print_rows(rows: list[Row], *, as_json: bool) -> None:
    """Print a table, or JSON with one object per row."""
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
        return
    names = max(len(row.name) for row in rows)
    values = max(len(_in_words(row)) for row in rows)
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            print(group)
        print(f"  {row.name:{names}}  {_in_words(row):>{values}}  {row.note}".rstrip())


def _model(recipe: Recipe, shape: ModelShape | None) -> Iterator[Row]:
    if shape is None:
        note = "not on this machine, so its sizes and memory are not known yet"
        yield Row(group="model", name="weights", value=recipe.model.path, note=note)
        return
    yield Row(group="model", name="weights", value=recipe.model.path or "new", note=shape.source)
    kv = f"{shape.num_heads} heads on {shape.num_key_value_heads}, vocabulary {shape.vocab_size:,}"
    note = f"{shape.num_layers} layers of {shape.hidden_size}, {kv}"
    yield Row(group="model", name="parameters", value=shape.num_parameters, unit="parameters", note=note)


def _supervised(recipe: Recipe) -> Iterator[Row]:
    sft = recipe.sft
    group = "supervised"
    if not sft.steps:
        yield Row(group=group, name="updates", value=0, unit="updates", note="sft.steps = 0 skips this stage")
        return
    sequences = sft.steps * sft.sequences_per_step
    yield Row(group=group, name="updates", value=sft.steps, unit="updates", note="sft.steps")
    note = f"{sft.sequences_per_step} a step"
    if sft.num_demonstrations:
        note += f", {sequences / sft.num_demonstrations:.1f} times each of {sft.num_demonstrations:,}"
    yield Row(group=group, name="sequences", value=sequences, unit="sequences", note=note)


def _reinforcement(recipe: Recipe) -> Iterator[Row]:
    *earlier, rollout = stages(recipe.rollout, recipe.curriculum)
    training, group = recipe.training, "reinforcement learning"
    if not training.steps:
        yield Row(group=group, name="updates", value=0, unit="updates", note="training.steps = 0 skips this stage")
        return
    trajectories = rollout.groups_per_step * rollout.group_size
    most = trajectories * rollout.max_context_tokens
    half = f"at {_ASSUMED_SHARE:.0%} of the longest, an assumption"
    yield Row(group=group, name="tasks per step", value=rollout.groups_per_step, unit="tasks", note=_refills(recipe))
    if earlier:
        note = "budgets grow; the figures below are of the last one"
        yield Row(group=group, name="stages", value=len(earlier) + 1, unit="stages", note=note)
    note = f"{rollout.group_size} samples of each task"
    yield Row(group=group, name="trajectories per step", value=trajectories, unit="trajectories", note=note)
    sampled = trajectories * rollout.max_sampled_tokens
    note = f"at most; {rollout.max_sampled_tokens} each"
    yield Row(group=group, name="sampled tokens per step", value=sampled, unit="tokens", note=note)
    note = f"at most; {rollout.max_context_tokens} each, prompt and tool output included"
    yield Row(group=group, name="tokens per step", value=most, unit="tokens", note=note)
    mean = round(most * _ASSUMED_SHARE)
    yield Row(group=group, name="mean tokens per step", value=mean, unit="tokens", note=half)
    note = f"at most, of {training.tokens_per_microbatch:,} tokens; {_microbatches(recipe, mean)} {half}"
    yield Row(group=group, name="micro-batches per step", value=_microbatches(recipe, most), unit="passes", note=note)
    updates = training.steps * training.updates_per_step
    note = f"{training.steps} steps x {training.updates_per_step}"
    yield Row(group=group, name="updates", value=updates, unit="updates", note=note)
    note = f"{rollout.groups_per_step} x {training.steps} steps, refills not counted"
    yield Row(group=group, name="tasks in all", value=rollout.groups_per_step * training.steps, unit="tasks", note=note)
    note = "at most"
    yield Row(group=group, name="sampled tokens in all", value=sampled * training.steps, unit="tokens", note=note)


def _refills(recipe: Recipe) -> str:
    refills = recipe.rollout.max_refills
    if not recipe.algorithm.dynamic_sampling:
        return "every group is trained on"
    if not refills:
        return "groups whose accuracies are all equal are dropped and not replaced"
    return f"up to {recipe.rollout.groups_per_step * (1 + refills)} drawn when groups are dropped"


def _microbatches(recipe: Recipe, num_tokens: int) -> int:
    """Forward and backward passes of one step of num_tokens: groups are shared out among updates, then packed whole."""
    training, rollout = recipe.training, recipe.rollout
    longest = max(1, num_tokens // (rollout.groups_per_step * rollout.group_size))
    per_pass = max(1, training.tokens_per_microbatch // longest)
    per_update = rollout.group_size * math.ceil(rollout.groups_per_step / training.updates_per_step)
    return training.updates_per_step * math.ceil(per_update / per_pass)


def _evaluation(recipe: Recipe) -> Iterator[Row]:
    counts = [
        recipe.evaluation.num_tasks if s.role == "eval" else min(recipe.evaluation.num_tasks, s.held_out)
        for s in recipe.data
        if s.role != "train"
    ]
    note = f"at most, sources with held-out tasks: {sum(c > 0 for c in counts)}"
    yield Row(group="evaluation", name="tasks each time", value=sum(counts), unit="tasks", note=note)


def _memory(recipe: Recipe, shape: ModelShape | None) -> Iterator[Row]:
    if shape is None:
        return
    size = _DTYPE_BYTES[recipe.model.dtype]
    weights = shape.num_parameters * size
    gradients = weights if size == 4 else shape.num_parameters * (size + 4)
    narrow = "" if size == 4 else "as computed, and collected in float32"
    processes = recipe.engine.num_processes
    cache_tokens = max(processes, 1) * recipe.engine.max_rows * recipe.engine.max_context_tokens
    cache = 2 * shape.num_layers * shape.num_key_value_heads * shape.head_size * size * cache_tokens
    rows = [
        Row(
            group="memory",
            name="weights",
            value=weights,
            unit="bytes",
            note=recipe.model.dtype if processes else f"{recipe.model.dtype}, shared with the engine",
        ),
        Row(group="memory", name="gradients", value=gradients, unit="bytes", note=narrow),
        Row(
            group="memory",
            name="optimiser state",
            value=_optimizer_bytes(recipe, shape, size),
            unit="bytes",
            note=_optimizers(recipe),
        ),
        Row(
            group="memory",
            name="KV cache",
            value=cache,
            unit="bytes",
            note=f"{recipe.engine.max_rows} rows of {recipe.engine.max_context_tokens} tokens",
        ),
        Row(
            group="memory",
            name="activations",
            value=_activation_bytes(recipe, shape, size),
            unit="bytes",
            note="one micro-batch, rough",
        ),
        Row(group="memory", name="logits chunk", value=recipe.training.loss_chunk_bytes, unit="bytes"),
    ]
    if processes:
        note = f"a copy in each of {processes} engine processes"
        rows.append(Row(group="memory", name="engine weights", value=processes * weights, unit="bytes", note=note))
    if recipe.algorithm.kl != "none" and recipe.training.steps:
        note = f'a frozen copy, for algorithm.kl = "{recipe.algorithm.kl}"'
        rows.append(Row(group="memory", name="reference weights", value=weights, unit="bytes", note=note))
    yield from rows
    available = available_memory_bytes()
    note = f"{_bytes_in_words(available)} are available here" if available is not None else ""
    total = sum(int(row.value) for row in rows)
    yield Row(
        group="memory",
        name="sum",
        value=total,
        unit="bytes",
        note=f"interpreter and libraries not counted; {note}".rstrip("; "),
    )


def _optimizers(recipe: Recipe) -> str:
    stages = ((recipe.sft_optimizer, recipe.sft.steps), (recipe.optimizer, recipe.training.steps))
    used = dict.fromkeys(optimizer.name for optimizer, steps in stages if steps)
    return f"{', '.join(used) or 'none'}; one stage at a time"


def _optimizer_bytes(recipe: Recipe, shape: ModelShape, size: int) -> int:
    """In float32: AdamW keeps two numbers a parameter, Muon one for hidden matrices; narrow weights have masters."""
    count, embeddings = shape.num_parameters, shape.vocab_size * shape.hidden_size
    masters = 0 if size == 4 else count
    needs = {"adamw": 2 * count, "muon": min(count + embeddings, 2 * count)}
    stages = ((recipe.sft_optimizer, recipe.sft.steps), (recipe.optimizer, recipe.training.steps))
    return 4 * max((masters + needs[optimizer.name] for optimizer, steps in stages if steps), default=0)


def _activation_bytes(recipe: Recipe, shape: ModelShape, size: int) -> int:
    """Kept for a backward pass; the factors were measured on Llama and Qwen3 shapes with plain torch operators."""
    kept = 11 * shape.hidden_size + 8 * shape.num_key_value_heads * shape.head_size + 5 * shape.ffn_size
    return recipe.training.tokens_per_microbatch * shape.num_layers * kept * size


def _in_words(row: Row) -> str:
    if isinstance(row.value, str):
        return row.value
    return _bytes_in_words(row.value) if row.unit == "bytes" else f"{row.value:,}"


def _bytes_in_words(num_bytes: int) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes} B"
