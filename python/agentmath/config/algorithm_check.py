"""What must hold between the settings of [algorithm] and the rest of a recipe, and which of them have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from agentmath.config.algorithm import PUBLISHED, AlgorithmSection
from agentmath.config.recipe import Recipe

_LARGEST_GSPO_BOUND = 0.05
"""A geometric mean over a sequence hardly ever moves that far in one step."""


def algorithm_faults(recipe: Recipe) -> Iterator[str]:
    """One sentence for each combination that cannot work."""
    algorithm, rollout = recipe.algorithm, recipe.rollout
    if algorithm.importance_floor > algorithm.importance_cap:
        yield (
            f"algorithm.importance_floor = {algorithm.importance_floor} is above algorithm.importance_cap = "
            f"{algorithm.importance_cap}: no weight lies between them"
        )
    if algorithm.resample_to == 1:
        yield "algorithm.resample_to = 1 leaves nothing to compare a sample with: keep at least 2, or 0 for all"
    if algorithm.overlong_buffer_tokens > rollout.max_sampled_tokens:
        yield (
            f"algorithm.overlong_buffer_tokens = {algorithm.overlong_buffer_tokens} is longer than a trajectory may be "
            f"(rollout.max_sampled_tokens = {rollout.max_sampled_tokens}): lower the one or raise the other"
        )


def algorithm_warnings(recipe: Recipe) -> Iterator[str]:
    """One sentence for each setting that hardly means what it says."""
    algorithm = recipe.algorithm
    if algorithm.surrogate == "gspo":
        if not algorithm.aggregation.startswith("seq-mean"):
            yield (
                f'algorithm.aggregation = "{algorithm.aggregation}" gives long sequences more weight: gspo is '
                'published with "seq-mean-token-mean"'
            )
        if algorithm.clip_high > _LARGEST_GSPO_BOUND:
            yield (
                f"algorithm.clip_high = {algorithm.clip_high} hardly ever acts: the ratio of gspo is a geometric mean "
                f"over a sequence, published with {PUBLISHED['surrogate']['gspo']['clip_high']}"
            )
    if algorithm.kl == "k1":
        yield 'algorithm.kl = "k1" restrains nothing: its gradient is 0 on average; take "k2" or "k3"'


def idle_keys(recipe: Recipe) -> Iterator[tuple[list[str], str]]:
    """(keys of [algorithm], why nothing reads them); keys at their defaults or published values are left out."""
    algorithm, rollout = recipe.algorithm, recipe.rollout
    surrogate, correction = algorithm.surrogate, algorithm.correction
    bounds = ["clip_low", "clip_high"]
    if surrogate == "sapo":
        yield bounds, "sapo has a gate and no bounds"
    elif recipe.training.updates_per_step == 1 and surrogate != "dppo":
        yield _changed(algorithm, [*bounds, "dual_clip"]), "with one update per step the ratio is always 1"
        yield ["surrogate"], "with one update per step the ratio is always 1, and all have the same gradient there"
    if surrogate != "ppo_clip":
        yield ["dual_clip"], f"{surrogate} has no dual clip"
    if surrogate != "sapo":
        yield ["sapo_tau_positive", "sapo_tau_negative"], f"{surrogate} has no gate"
    if algorithm.advantage in ("dr_grpo", "rloo"):
        yield ["std_floor"], f"{algorithm.advantage} divides by no deviation"
    weights = ["importance_floor", "importance_cap"]
    if surrogate == "dppo":
        yield ["correction", *_changed(algorithm, weights)], "dppo measures from the behaviour policy itself"
    elif correction == "none":
        yield weights, "nothing is corrected"
    elif correction.endswith("tis"):
        yield ["importance_floor"], f"{correction} has no lower bound"
    if algorithm.kl == "none":
        yield ["kl_coef"], "there is no KL penalty"
    if not algorithm.overlong_buffer_tokens:
        yield ["overlong_penalty"], "overlong_buffer_tokens = 0 lowers no reward"
    if algorithm.resample_to >= rollout.group_size:
        yield ["resample_to"], f"a group has rollout.group_size = {rollout.group_size} samples, all are kept"


def _changed(algorithm: AlgorithmSection, keys: list[str]) -> list[str]:
    """Those of the keys whose values did not come with the name of the surrogate or of the correction."""
    published = {
        **PUBLISHED["surrogate"].get(algorithm.surrogate, {}),
        **PUBLISHED["correction"].get(algorithm.correction, {}),
    }
    return [key for key in keys if getattr(algorithm, key) != published.get(key)]
