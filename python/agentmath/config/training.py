"""[training]: steps, micro-batches, checkpoints. [optimizer] and [sft_optimizer]: how weights move."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class OptimizerSection(Section):
    name: Literal["adamw", "muon"] = "adamw"
    """muon uses Muon for hidden matrices and AdamW for the rest."""
    learning_rate: float = Field(default=1e-6, gt=0)
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = Field(default=0.0, ge=0)
    warmup_steps: int = Field(default=0, ge=0)
    schedule: Literal["constant", "cosine"] = "constant"
    """cosine falls to a tenth of learning_rate at the last step."""
    max_grad_norm: float = Field(default=1.0, gt=0)


class TrainingSection(Section):
    steps: int = Field(default=50, ge=0)
    """Optimiser steps of reinforcement learning; 0 stops after the supervised stage."""
    updates_per_step: int = Field(default=1, ge=1)
    """Optimiser updates made from one step's trajectories; above 1 the ratio is no longer 1 and clipping acts."""
    tokens_per_microbatch: int = Field(default=8192, ge=1)
    """Tokens in one forward and backward pass; never changes the gradient."""
    loss_chunk_bytes: int = Field(default=64 << 20, ge=1 << 16)
    """Memory for one chunk of logits."""
    loss_backend: Literal["auto", "native", "triton", "torch"] = "auto"
    """What reads logits and writes their gradient: native is C++ on the CPU, triton is for GPUs, torch runs anywhere;
    auto takes the first of them that can."""
    nonfinite: Literal["raise", "skip"] = "raise"
    """What a non-finite loss or gradient does; the batch is kept for inspection either way."""
    checkpoint_every_steps: int = Field(default=10, ge=1)
    keep_checkpoints: int = Field(default=2, ge=1)
    min_start_accuracy: float = Field(default=0.05, ge=0, le=1)
    """Reinforcement learning refuses to start below it: almost no group would hold a right answer."""


class SFTSection(Section):
    steps: int = Field(default=0, ge=0)
    """Optimiser steps; 0 skips the supervised stage."""
    path: str = ""
    """JSONL or parquet of messages or trajectories; empty builds demonstrations from the train sources."""
    sequences_per_step: int = Field(default=64, ge=1)
    tool_share: float = Field(default=1.0, ge=0, le=1)
    """Share of built demonstrations that use the tool; the others answer at once."""
    explain: bool = False
    """Built demonstrations say in a sentence what is to be computed, for models that know the language."""
    num_demonstrations: int = Field(default=0, ge=0)
    """Demonstrations built, 0 for one per training row."""
    held_out: int = Field(default=64, ge=0)
    """Demonstrations kept aside for the held-out loss."""
    eval_every_steps: int = Field(default=50, ge=1)
    patience: int = Field(default=0, ge=0)
    """Evaluations without a better held-out loss before stopping early; 0 never stops early."""
