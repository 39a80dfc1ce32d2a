"""TRL's GRPOTrainer answers the cases: its own code forms advantages, corrections and the loss.

Only two of its methods are replaced: the one that samples, and the one that runs the model, which give the numbers of
the case. What it does not offer is unsupported, with the reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from agentmath.config.model import ModelSection
from agentmath.conformance.cases import Answer, Case
from agentmath.core.errors import ConfigError
from agentmath.training.policy import export_hf, load_policy

LOSS_TYPES: Mapping[tuple[str, str], str] = {
    ("ppo_clip", "token-mean"): "dapo",
    ("ppo_clip", "seq-mean-token-mean"): "grpo",
    ("ppo_clip", "seq-mean-token-sum"): "luspo",
    ("ppo_clip", "seq-mean-token-sum-norm"): "dr_grpo",
    ("cispo", "token-mean"): "cispo",
    ("gspo", "seq-mean-token-mean"): "grpo",
}
CORRECTIONS: Mapping[str, str] = {
    "token_tis": "token_truncate",
    "icepop": "token_mask",
    "sequence_tis": "sequence_truncate",
    "sequence_mask": "sequence_mask",
}
SCALES: Mapping[str, str] = {"grpo": "group", "dr_grpo": "none"}
_ADDED = "divides by the standard deviation + 1e-4, in float32, where the case divides by max(deviation, floor)"
_MULTIPLIED = "multiplies by the mask, and 0 x NaN is NaN"
_UNBOUNDED = "does not bound exp of the log ratio, and the gradient of min(inf, bound) is 0 x inf = NaN"
DIFFERENCES: Mapping[str, str] = {
    "advantage-grpo": _ADDED,
    "advantage-one-against-seven": _ADDED,
    "advantage-nearly-equal": _ADDED,
    "advantage-all-equal-negative": "divides by 1e-4 what rounding leaves of R - mean",
    "mask-poisoned": _MULTIPLIED,
    "mask-infinite-ratio": _MULTIPLIED,
    "kl-masked-overflow": _MULTIPLIED,
    "mask-one-sequence-of-a-mean": "counts a sequence without a sampled token in the mean over sequences",
    "microbatches-seq-mean-token-mean": "takes the mean over sequences within each piece, then over pieces",
    "ratio-overflow": _UNBOUNDED,
    "ratio-overflow-dual-clip": _UNBOUNDED,
}
"""Cases that TRL 1.16 is known to answer otherwise, and why."""


def framework() -> Callable[[Case], Answer]:
    """Answers by one trainer over a tiny model. Raises ConfigError when TRL is not installed."""
    try:
        from datasets import Dataset
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer
    except ImportError as fault:
        raise ConfigError(
            f"TRL cannot be imported ({fault}): install it beside agentmath with pip install 'agentmath[bench]'"
        ) from fault

    class Scripted(GRPOTrainer):
        """Gives what it is told in place of samples and log-probs."""

        completion: Any = None
        logprobs_now: Any = None

        def _generate(self, prompts: list[Any]) -> Any:
            return self.completion

        def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
            found = self.logprobs_now["reference" if model is self.ref_model else "policy"]
            return found, torch.zeros_like(found), None

    with tempfile.TemporaryDirectory() as folder:
        tiny = ModelSection(hidden_size=16, num_layers=1, num_heads=2, num_key_value_heads=1, ffn_size=16)
        export_hf(load_policy(tiny, name="policy", seed=0, corpus=["1 + 1 = 2"]), folder)
        config = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=2, num_generations=2, use_cpu=True, bf16=False, report_to=[]
        )
        trainer = Scripted(
            model=folder,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config,
            train_dataset=Dataset.from_dict({"prompt": ["1"]}),
        )
    assert trainer.model is not None
    trainer.model.train()
    return lambda case: _loss(trainer, case) if case.kind == "loss" else _advantages(trainer, case)


def _advantages(trainer: Any, case: Case) -> Answer:
    scale = SCALES.get(case.settings["advantage"])
    if scale is None:
        return {"unsupported": f"no advantage {case.settings['advantage']!r}"}
    trainer.scale_rewards = scale
    rewards = case.inputs["rewards"]
    return {"advantages": _scored(trainer, [[1]] * len(rewards), rewards=rewards)["advantages"].tolist()}


def _scored(trainer: Any, mask: list[list[int]], *, rewards: list[float], behaviour: Any = None) -> dict[str, Any]:
    """The trainer's batch from S completions of T tokens, all of one group."""
    num = len(mask)
    trainer.reward_funcs = [lambda completions, **_: rewards]
    ids = [[1] * len(row) for row in mask]
    trainer.completion = ([[1]] * num, ids, mask, ["1"] * num, behaviour, {}, None, None)
    trainer.num_generations = num
    total = torch.tensor(sum(map(sum, mask)))
    batch = trainer._generate_and_score_completions([{"prompt": "1"}] * num)
    return {**batch, "num_items_in_batch": total}


def _loss(trainer: Any, case: Case) -> Answer:
    reason = _missing(case)
    if reason:
        return {"unsupported": reason}
    s, inputs, pieces = case.settings, case.inputs, case.inputs["microbatches"]
    _set_up(trainer, s, len(pieces), has_old=inputs["old_logprobs"] is not None)
    logprobs = torch.tensor(inputs["logprobs"], dtype=torch.float32, requires_grad=True)
    old = logprobs.detach() if inputs["old_logprobs"] is None else torch.tensor(inputs["old_logprobs"])
    reference = inputs["reference_logprobs"]
    now = {"policy": old, "reference": None if reference is None else torch.tensor(reference)}
    trainer.ref_model, trainer.logprobs_now = (object(), now) if reference is not None else (None, now)
    batch = _scored(trainer, inputs["mask"], rewards=inputs["advantages"], behaviour=inputs["behaviour_logprobs"])
    batch["advantages"] = torch.tensor(inputs["advantages"], dtype=torch.float32)
    loss = 0.0
    for piece in pieces:
        rows = torch.tensor(piece)
        trainer.logprobs_now = {"policy": logprobs[rows], "reference": None}
        share = trainer._compute_loss(trainer.model, {k: _rows(v, rows) for k, v in batch.items()})
        share.backward()
        loss += float(share.detach())
    gradient = torch.zeros_like(logprobs) if logprobs.grad is None else logprobs.grad
    return {"loss": loss, "gradient": gradient.tolist()}


def _missing(case: Case) -> str:
    """What a loss case needs and TRL does not offer."""
    s = case.settings
    if (s["surrogate"], s["aggregation"]) not in LOSS_TYPES:
        return f"no {s['surrogate']} with aggregation {s['aggregation']}"
    if s["correction"] != "none" and s["correction"] not in CORRECTIONS:
        return f"no correction {s['correction']}"
    if s["kl"] not in ("none", "k3"):
        return f"no KL estimate {s['kl']}"
    return ""


def _set_up(trainer: Any, s: Mapping[str, Any], num_pieces: int, *, has_old: bool) -> None:
    """The case's settings under TRL's names. CISPO's bound is absolute there."""
    trainer.loss_type = LOSS_TYPES[s["surrogate"], s["aggregation"]]
    trainer.importance_sampling_level = "sequence" if s["surrogate"] == "gspo" else "token"
    trainer.epsilon_low, trainer.epsilon_high = s["clip_low"], s["clip_high"] + (s["surrogate"] == "cispo")
    trainer.args.delta, trainer.beta = s["dual_clip"], s["kl_coef"]
    trainer.args.use_bias_correction_kl = False
    trainer.max_completion_length = s["horizon_tokens"] or trainer.max_completion_length
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = s["correction"] != "none"
    trainer.vllm_importance_sampling_mode = CORRECTIONS.get(s["correction"], "token_truncate")
    trainer.vllm_importance_sampling_clip_min = s["correction_low"]
    trainer.vllm_importance_sampling_clip_max = s["correction_high"]
    trainer.args.gradient_accumulation_steps = trainer.args.steps_per_generation = num_pieces
    trainer.current_gradient_accumulation_steps = num_pieces
    trainer.num_iterations = 2 if has_old else 1


def _rows(value: Any, rows: Tensor) -> Any:
    return value[rows] if isinstance(value, Tensor) and value.ndim else value
