"""What must hold between the settings of a recipe, and which of them have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import repeat

from agentmath.config.algorithm import AlgorithmSection
from agentmath.config.algorithm_check import algorithm_faults, algorithm_warnings, idle_keys
from agentmath.config.curriculum import curriculum_faults, curriculum_warnings, stages
from agentmath.config.data import GENERATED, DataSection
from agentmath.config.endpoint import EndpointSection, endpoint_faults
from agentmath.config.engine import idle_engine_keys
from agentmath.config.model import ModelSection
from agentmath.config.recipe import Recipe
from agentmath.config.reward import RewardSection
from agentmath.config.rollout import RolloutSection
from agentmath.config.rollout_check import idle_rollout_keys, rollout_faults, rollout_warnings
from agentmath.config.section import Section
from agentmath.config.training import OptimizerSection, SFTSection
from agentmath.core.errors import ConfigError

_NEW_MODEL_KEYS = tuple(k for k in ModelSection.model_fields if k not in ("path", "dtype"))
_LARGEST_SEED = 2**63 - 1
_MOST_TRAJECTORIES = 10**6
_MOST_TASKS = 10**7
_COUNTS_OF_ROLLOUTS = (
    *("max_sampled_tokens", "max_context_tokens", "max_tool_calls", "max_segments", "segment_sampled_tokens"),
    *("segment_tool_calls", "max_in_flight", "max_running_context_tokens", "max_retries", "max_staleness"),
)
_OF_FILES = (
    "path",
    "split",
    "subset",
    "difficulty",
    "levels",
    "difficulty_column",
    "question_column",
    "answer_column",
    "instructions",
    "bad_rows",
    "max_question_chars",
)
"""Keys of [[data]] that say how a file is read."""


def check_recipe(recipe: Recipe) -> list[str]:
    """Check what no single value can tell. Returns warnings; raises ConfigError with one sentence per fault."""
    faults = [
        *_data_faults(recipe),
        *curriculum_faults(recipe.rollout, recipe.curriculum),
        *_length_faults(recipe),
        *rollout_faults(recipe.rollout),
        *_model_faults(recipe.model),
        *algorithm_faults(recipe),
        *_size_faults(recipe),
        *_other_faults(recipe),
        *(endpoint_faults(recipe.endpoint) if recipe.endpoint.url else ()),
    ]
    if faults:
        several = "\n  ".join([f"the recipe cannot work, {len(faults)} faults:", *faults])
        raise ConfigError(faults[0] if len(faults) == 1 else several)
    last = stages(recipe.rollout, recipe.curriculum)[-1]
    return [
        *_data_warnings(recipe),
        *rollout_warnings(last),
        *_idle_rollout_warnings(last, recipe.algorithm),
        *curriculum_warnings(recipe.rollout, recipe.curriculum),
        *_training_warnings(recipe),
        *_model_warnings(recipe),
        *_other_warnings(recipe),
    ]


def is_trained_on(source: DataSection) -> bool:
    """True when tasks of the source may be trained on."""
    return source.role != "eval"


def is_held_out(source: DataSection) -> bool:
    """True when the source has tasks for evaluation."""
    return source.role == "eval" or (source.role == "train_and_eval" and source.held_out > 0)


def _data_faults(recipe: Recipe) -> Iterator[str]:
    names = [source.name for source in recipe.data]
    for name in dict.fromkeys(n for n in names if names.count(n) > 1):
        yield f"{names.count(name)} data sources are called {name!r}: every source needs a name of its own"
    if any(not re.fullmatch(r"[A-Za-z0-9._-]+", n) for n in names):
        yield f"data names {names}: use letters, digits, dots, - and _ only, so that --data.NAME.key can name them"
    needs_tasks = recipe.training.steps > 0 or (recipe.sft.steps > 0 and not recipe.sft.path)
    if needs_tasks and not any(is_trained_on(source) for source in recipe.data):
        yield "no data source is trained on: add a [[data]] table whose role is train or train_and_eval"
    for source in recipe.data:
        yield from _source_faults(source)


def _source_faults(source: DataSection) -> Iterator[str]:
    label = f"data.{source.name}"
    if source.kind in GENERATED and not source.max_tasks:
        yield f"data source {source.name!r} ({source.kind}) has no problems: give --{label}.max_tasks N"
    if is_trained_on(source) and source.kind not in GENERATED and not source.path:
        yield f"data source {source.name!r} ({source.kind}) has no file: give --{label}.path FILE"
    if source.role == "train_and_eval" and 0 < source.max_tasks <= source.held_out:
        yield (
            f"{label}: all {source.max_tasks} tasks would be held out (held_out = {source.held_out}) "
            f"and none trained on; lower held_out or raise max_tasks"
        )
    if source.difficulty and (len(source.difficulty) != 2 or source.difficulty[0] > source.difficulty[1]):
        yield f"{label}.difficulty = {list(source.difficulty)}: give [low, high], the easiest and the hardest to keep"
    if source.kind == "word_problem" and not all(1 <= count <= 8 for count in source.steps):
        yield f"{label}.steps = {list(source.steps)}: word problems have 1 to 8 steps"
    if source.kind == "reasoning_gym" and not source.dataset:
        yield f"data source {source.name!r} (reasoning_gym) names no dataset: give --{label}.dataset, e.g. chain_sum"


def _length_faults(recipe: Recipe) -> Iterator[str]:
    if not [*curriculum_faults(recipe.rollout, recipe.curriculum)]:
        every = [*map(_faults_of_lengths, repeat(recipe), stages(recipe.rollout, recipe.curriculum))]
        yield from dict.fromkeys(fault for faults in every for fault in faults)


def _faults_of_lengths(recipe: Recipe, rollout: RolloutSection) -> Iterator[str]:
    engine, model = recipe.engine, recipe.model
    if rollout.max_context_tokens > engine.max_context_tokens:
        yield (
            f"rollout.max_context_tokens = {rollout.max_context_tokens} is more than the engine holds "
            f"(engine.max_context_tokens = {engine.max_context_tokens}): lower the one or raise the other"
        )
    if not model.path and engine.max_context_tokens > model.max_context_tokens:
        yield (
            f"engine.max_context_tokens = {engine.max_context_tokens} is more than the new model can read "
            f"(model.max_context_tokens = {model.max_context_tokens}): lower the one or raise the other"
        )
    for key in ("max_sampled_tokens", "max_tool_output_tokens"):
        if getattr(rollout, key) >= rollout.max_context_tokens:
            yield (
                f"rollout.{key} = {getattr(rollout, key)} leaves no room for the prompt within "
                f"rollout.max_context_tokens = {rollout.max_context_tokens}: lower the one or raise the other"
            )


def _model_faults(model: ModelSection) -> Iterator[str]:
    if model.path:
        return
    if model.hidden_size % model.num_heads or model.hidden_size // model.num_heads % 2:
        yield (
            f"model.hidden_size = {model.hidden_size} over model.num_heads = {model.num_heads} must give heads of an "
            f"even whole size, as rotary positions turn pairs"
        )
    if model.num_heads % model.num_key_value_heads:
        yield (
            f"model.num_heads = {model.num_heads} must be a multiple of "
            f"model.num_key_value_heads = {model.num_key_value_heads}"
        )


def _size_faults(recipe: Recipe) -> Iterator[str]:
    """Numbers that no machine has a use for: a slip of the keyboard would fill the memory before anything is said."""
    trajectories = recipe.rollout.groups_per_step * recipe.rollout.group_size
    if trajectories > _MOST_TRAJECTORIES:
        yield (
            f"rollout.groups_per_step = {recipe.rollout.groups_per_step} times rollout.group_size = "
            f"{recipe.rollout.group_size} are more trajectories than one step can hold: at most {_MOST_TRAJECTORIES}"
        )
    most: dict[str, float] = {
        "run.num_threads": 1024,
        "sandbox.num_workers": 1024,
        "rollout.group_size": 1 << 16,
        "rollout.over_submission": 1000,
        **{f"rollout.{key}": 1 << 40 for key in _COUNTS_OF_ROLLOUTS},
        "sft.sequences_per_step": 10**6,
        "sandbox.cpu_seconds": 1e8,
        "sandbox.wall_seconds": 1e8,
        "sandbox.memory_bytes": 1 << 60,
        "sandbox.output_bytes": 1 << 60,
        "sandbox.file_bytes": 1 << 60,
    }
    for name, limit in most.items():
        section, _, key = name.partition(".")
        value = getattr(getattr(recipe, section), key)
        if value > limit:
            yield f"{name} = {value} is more than can be had: at most {limit:,}"
    for source in recipe.data:
        if source.kind in GENERATED and source.max_tasks > _MOST_TASKS:
            yield f"data.{source.name}.max_tasks = {source.max_tasks} are too many problems: at most {_MOST_TASKS:,}"


def _other_faults(recipe: Recipe) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", recipe.run.name):
        yield f"run.name = {recipe.run.name!r} names a folder: use letters, digits, dots, - and _ only, 100 at most"
    if not recipe.run.output_dir:
        yield "run.output_dir is empty: name a folder, . for the current one"
    if recipe.run.seed > _LARGEST_SEED:
        yield f"run.seed = {recipe.run.seed} is more than random generators take: at most {_LARGEST_SEED}"
    for section in ("optimizer", "sft_optimizer"):
        betas = getattr(recipe, section).betas
        if not all(0 <= beta < 1 for beta in betas):
            yield f"{section}.betas = {list(betas)}: each must be at least 0 and less than 1"
    if recipe.training.updates_per_step > recipe.rollout.groups_per_step:
        yield (
            f"training.updates_per_step = {recipe.training.updates_per_step} is more than a step has groups to share "
            f"out (rollout.groups_per_step = {recipe.rollout.groups_per_step}): lower the one or raise the other"
        )


def _data_warnings(recipe: Recipe) -> Iterator[str]:
    for source in recipe.data:
        label = f"data.{source.name}"
        if source.kind not in GENERATED and not source.path:
            yield f"{label} has no file and is left out: give --{label}.path FILE to evaluate on it"
        if source.kind in GENERATED:
            yield from _without_effect(source, _OF_FILES, label, "problems are generated, not read")
            unused = {"word_problem": ["dataset"], "reasoning_gym": ["digits", "steps"]}
            others = unused.get(source.kind, ["dataset", "steps"])
            yield from _without_effect(source, others, label, f"kind {source.kind} does not know them")
        else:
            generated = ["digits", "dataset"]
            yield from _without_effect(source, generated, label, f"kind {source.kind} reads its problems")
        if source.role != "train_and_eval":
            yield from _without_effect(source, ["held_out"], label, f"role {source.role} splits nothing off")
        if not is_trained_on(source):
            yield from _without_effect(source, ["weight"], label, "the source is not trained on")
    if recipe.data and not any(is_held_out(source) for source in recipe.data):
        yield "no data source holds tasks out (data.NAME.held_out) or has role eval: accuracy will not be measured"


def _idle_rollout_warnings(rollout: RolloutSection, algorithm: AlgorithmSection) -> Iterator[str]:
    for keys, reason in idle_rollout_keys(rollout, algorithm):
        yield from _without_effect(rollout, keys, "rollout", reason)


def _training_warnings(recipe: Recipe) -> Iterator[str]:
    algorithm, training = recipe.algorithm, recipe.training
    if training.steps:
        for keys, reason in idle_keys(recipe):
            yield from _without_effect(algorithm, keys, "algorithm", reason)
        yield from algorithm_warnings(recipe)
        if not recipe.rollout.max_tool_calls:
            yield from _without_effect(recipe.reward, RewardSection.model_fields, "reward", "no tool call is allowed")
        if recipe.evaluation.every_steps >= training.steps:
            yield (
                f"evaluation.every_steps = {recipe.evaluation.every_steps} has no effect: "
                f"there are only {training.steps} training steps"
            )
    for label, optimizer, steps in (
        ("optimizer", recipe.optimizer, training.steps),
        ("sft_optimizer", recipe.sft_optimizer, recipe.sft.steps),
    ):
        if optimizer.warmup_steps >= steps > 0:
            yield f"{label}.warmup_steps = {optimizer.warmup_steps}: {steps} steps never get past the warm-up"


def _model_warnings(recipe: Recipe) -> Iterator[str]:
    if recipe.model.path:
        yield from _without_effect(recipe.model, _NEW_MODEL_KEYS, "model", "model.path brings sizes of its own")


def _other_warnings(recipe: Recipe) -> Iterator[str]:
    if not recipe.endpoint.url:
        keys = EndpointSection.model_fields
        yield from _without_effect(recipe.endpoint, keys, "endpoint", "without endpoint.url no server is asked")
    sft = recipe.sft
    if not sft.steps:
        yield from _without_effect(sft, SFTSection.model_fields, "sft", "sft.steps = 0 skips the supervised stage")
        keys = OptimizerSection.model_fields
        yield from _without_effect(
            recipe.sft_optimizer, keys, "sft_optimizer", "sft.steps = 0 skips the supervised stage"
        )
    elif sft.path:
        built = ["tool_share", "num_demonstrations"]
        yield from _without_effect(sft, built, "sft", "sft.path brings the demonstrations, none are built")
    for keys, reason in idle_engine_keys(recipe.engine):
        yield from _without_effect(recipe.engine, keys, "engine", reason)
    if recipe.sandbox.wall_seconds < recipe.sandbox.cpu_seconds:
        yield (
            f"sandbox.cpu_seconds = {recipe.sandbox.cpu_seconds} has no effect: "
            f"sandbox.wall_seconds = {recipe.sandbox.wall_seconds} ends the program first"
        )


def _without_effect(section: Section, keys: Iterable[str], label: str, reason: str) -> Iterator[str]:
    fields = type(section).model_fields
    given = [f"{label}.{key}" for key in keys if getattr(section, key) != fields[key].default]
    if given:
        yield f"{', '.join(given)} {'has' if len(given) == 1 else 'have'} no effect: {reason}"
