"""Prompt-to-gradient tokens per second: agentmath beside TRL's GRPOTrainer, at the same model, prompts and lengths.

    python bench/train_throughput.py --json [--models tiny smollm2] [--smollm2 FOLDER] [--rounds 3]

One step is: sample `group` completions of exactly `new` tokens for each prompt, reward them, form advantages, one
forward and backward over all of them, one AdamW update. No tool runs and no end token is honoured, so that both systems
do equal work. Rounds alternate between the systems in one process; the first step of each round is not counted.
Tokens are prompt and completion tokens of all samples. TRL is an extra: pip install agentmath[bench].
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from common import emit, record

from agentmath.algorithms import advantages
from agentmath.config.algorithm import AlgorithmSection
from agentmath.config.curriculum import CurriculumSection
from agentmath.config.engine import EngineSection
from agentmath.config.model import ModelSection
from agentmath.config.rollout import RolloutSection
from agentmath.config.training import OptimizerSection, TrainingSection
from agentmath.core.interfaces import Action, Tokenizer
from agentmath.core.types import Completion, Group, Reward, SpanKind, Task, Tokens, ToolCall, ToolResult
from agentmath.data.demonstrations import demonstrations
from agentmath.data.generators import arithmetic
from agentmath.orchestration.engines import build_engine
from agentmath.rollout.collector import Collector
from agentmath.rollout.episode import Stage
from agentmath.rollout.scheduler import Scheduler, settings_of
from agentmath.telemetry.stages import StageClock
from agentmath.training import samples, step
from agentmath.training.optim import Optimizer
from agentmath.training.policy import Policy, export_hf, load_policy


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The work of one step."""

    model: str
    path: str
    prompts: int
    group: int
    new: int
    learning_rate: float
    tokens_per_microbatch: int


def shapes(smollm2: str) -> dict[str, Shape]:
    """tiny: the quickstart's model and step; smollm2: 16 completions of 256 tokens."""
    return {
        "tiny": Shape(
            model="tiny", path="", prompts=16, group=8, new=55, learning_rate=3e-4, tokens_per_microbatch=16384
        ),
        "smollm2": Shape(
            model="smollm2", path=smollm2, prompts=2, group=8, new=256, learning_rate=1e-6, tokens_per_microbatch=4096
        ),
    }


def verdict(text: str) -> float:
    """A reward that is as good as random and equal for equal texts."""
    return float(zlib.crc32(text.encode()) % 2)


class Talker:
    """An agent that only talks: whatever it says is one answer, ended by length."""

    name, role, policy, stop = "talker", "reasoning", "policy", ()

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def prompt(self, task: Task) -> Tokens:
        return Tokens.inserted(self.tokenizer.encode(task.question + "\n", allow_special=False), SpanKind.PROMPT)

    def read(self, context: Tokens, completion: Completion) -> Action:
        tokens = Tokens(
            ids=completion.ids,
            logprobs=completion.logprobs,
            kinds=np.full(len(completion.ids), SpanKind.ANSWER, dtype=np.uint8),
            versions=completion.versions,
        )
        return Action(tokens=tokens, stop_reason=completion.stop_reason)

    def insert(self, result: ToolResult | str) -> Tokens:
        raise AssertionError("the benchmark runs no tool")

    def answer_text(self, sampled: Tokens) -> str:
        return ""


class NoTool:
    """Never called."""

    name = "code"

    async def open(self, *, seed: int) -> str:
        raise AssertionError("the benchmark runs no tool")

    async def run(self, call: ToolCall, session: str) -> ToolResult:
        raise AssertionError("the benchmark runs no tool")

    async def close(self, session: str) -> None:
        raise AssertionError("the benchmark runs no tool")


class Ours:
    """Steps of agentmath, built from the parts that `agentmath rl` uses."""

    def __init__(self, shape: Shape, policy: Policy, tasks: Sequence[Task]) -> None:
        self.shape, self.policy, self.tasks = shape, policy, tasks
        # No end token and no stop text: every completion has exactly `new` tokens.
        policy.tokenizer.eos_ids = ()
        agent = Talker(policy.tokenizer)
        context = max(len(agent.prompt(t)) for t in tasks) + shape.new + 8
        rows = shape.prompts * shape.group
        self.engine = build_engine(policy, EngineSection(max_rows=rows, max_context_tokens=context))
        section = RolloutSection(
            groups_per_step=shape.prompts,
            group_size=shape.group,
            max_sampled_tokens=shape.new,
            max_context_tokens=context,
            max_staleness=0,
        )
        stage = Stage(
            agent=agent,
            engine=self.engine,
            tool=NoTool(),
            section=section,
            seed=0,
            purpose="bench",
            temperature=1.0,
        )
        self.collector = Collector(stage=stage, scheduler=Scheduler(settings_of([section], CurriculumSection())))
        optimizer = OptimizerSection(learning_rate=shape.learning_rate)
        self.optimizer = Optimizer(policy.named_parameters(), optimizer, total_steps=10**6)
        self.settings = step.StepSettings(
            algorithm=AlgorithmSection(dynamic_sampling=False),
            training=TrainingSection(tokens_per_microbatch=shape.tokens_per_microbatch),
            temperature=1.0,
        )
        self.num_steps = 0

    def steps(self, count: int) -> list[tuple[float, int, dict[str, float]]]:
        """(seconds, tokens, seconds per stage) of each of count steps."""
        with asyncio.Runner() as runner:
            return [self._step(runner) for _ in range(count)]

    def _step(self, runner: asyncio.Runner) -> tuple[float, int, dict[str, float]]:
        clock, shape, begin = StageClock(), self.shape, self.num_steps * self.shape.prompts
        tasks = [(begin + i, self.tasks[(begin + i) % len(self.tasks)]) for i in range(shape.prompts)]
        with clock.stage("rollout"):
            collected = self.collector.collect(
                lambda count: tasks[:count], wanted=shape.prompts, step=self.num_steps, version=self.num_steps
            )
            groups = runner.run(collected)
        with clock.stage("reward"):
            self._reward(groups)
        with clock.stage("train"):
            advantages.assign(groups, self.settings.algorithm)
            made = samples.from_groups(groups, {"talker": "policy"})
            step.train_step(self.policy, self.optimizer, made.samples, self.settings, step=self.num_steps)
        self.num_steps += 1
        with clock.stage("publish"):
            runner.run(self.engine.update_weights(self.num_steps, None))
        taken = clock.take()
        seconds = taken.pop("seconds/step")
        tokens = sum(t.num_context_tokens for g in groups for t in g.trajectories)
        return seconds, tokens, {name.removeprefix("seconds/"): value for name, value in taken.items()}

    def _reward(self, groups: Sequence[Group]) -> None:
        for group in groups:
            for trajectory in group.trajectories:
                score = verdict(str(trajectory.tokens.ids.tolist()))
                trajectory.reward = Reward(total=score, parts={"accuracy": score})


class Theirs:
    """Steps of TRL's GRPOTrainer with the same numbers."""

    def __init__(
        self, shape: Shape, folder: str, prompts: Sequence[str], tokens_per_step: Callable[[int], int]
    ) -> None:
        self.shape, self.folder, self.prompts, self.tokens_per_step = shape, folder, prompts, tokens_per_step

    def steps(self, count: int) -> list[tuple[float, int, dict[str, float]]]:
        """(seconds, tokens, no stages) of each of count steps; building the trainer is not counted."""
        from datasets import Dataset  # pyright: ignore[reportMissingImports]
        from transformers import TrainerCallback
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

        marks: list[float] = []

        class Marks(TrainerCallback):
            def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
                marks.append(time.perf_counter())

            def on_train_end(self, *args: Any, **kwargs: Any) -> None:
                marks.append(time.perf_counter())

        shape, rows = self.shape, self.shape.prompts * self.shape.group
        with tempfile.TemporaryDirectory() as out:
            config = GRPOConfig(
                output_dir=out,
                per_device_train_batch_size=rows,
                num_generations=shape.group,
                max_completion_length=shape.new,
                generation_kwargs={"min_new_tokens": shape.new},
                max_steps=count,
                learning_rate=shape.learning_rate,
                lr_scheduler_type="constant",
                beta=0.0,
                temperature=1.0,
                bf16=False,
                gradient_checkpointing=False,
                use_cpu=not torch.cuda.is_available(),
                report_to=[],
                save_strategy="no",
                logging_steps=10**6,
                disable_tqdm=True,
                shuffle_dataset=False,
            )
            trainer = GRPOTrainer(
                model=self.folder,
                reward_funcs=lambda completions, **_: [verdict(str(c)) for c in completions],
                args=config,
                train_dataset=Dataset.from_dict({"prompt": list(self.prompts)}),
                callbacks=[Marks()],
            )
            trainer.train()
        seconds = [b - a for a, b in pairwise(marks)]
        return [(s, self.tokens_per_step(i), {}) for i, s in enumerate(seconds)]


def compare(shape: Shape, *, rounds: int, steps_per_round: int, with_trl: bool) -> list[dict[str, Any]]:
    """Rows of one model: both systems in alternating rounds."""
    tasks = arithmetic(shape.prompts * 64, 2, 0)
    corpus = None
    if not shape.path:
        made = demonstrations(tasks, tool_share=0.5, seed=0)
        corpus = [t.question + "".join(d.turns) for t, d in zip(tasks, made, strict=False)]
    section = ModelSection(path=shape.path)
    policy = load_policy(section, name="policy", seed=0, corpus=corpus)
    with tempfile.TemporaryDirectory() as folder:
        export_hf(policy, folder)
        ours = Ours(shape, policy, tasks)
        prompts = [task.question + "\n" for task in tasks]
        lengths = [len(policy.tokenizer.encode(p, allow_special=False)) for p in prompts]

        def tokens_per_step(index: int) -> int:
            used = [lengths[(index * shape.prompts + i) % len(lengths)] for i in range(shape.prompts)]
            return shape.group * sum(n + shape.new for n in used)

        systems: dict[str, Any] = {"agentmath": ours}
        if with_trl:
            systems["trl"] = Theirs(shape, folder, prompts, tokens_per_step)
        measured: dict[str, list[tuple[float, int, dict[str, float]]]] = defaultdict(list)
        for _ in range(rounds):
            for name, system in systems.items():
                measured[name] += system.steps(steps_per_round + 1)[1:]
    return [row(shape.model, name, steps) for name, steps in measured.items()]


def row(model: str, system: str, steps: Sequence[tuple[float, int, dict[str, float]]]) -> dict[str, Any]:
    """The figures of one system: medians over steps, and each stage's share of the time."""
    total = sum(seconds for seconds, _, _ in steps)
    stages: dict[str, float] = defaultdict(float)
    for _, _, parts in steps:
        for name, seconds in parts.items():
            stages[name] += seconds / total
    return {
        "model": model,
        "system": system,
        "tokens_per_second": statistics.median(tokens / seconds for seconds, tokens, _ in steps),
        "seconds_per_step": statistics.median(seconds for seconds, _, _ in steps),
        "num_steps": len(steps),
        "stages": {name: round(share, 4) for name, share in stages.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--models", nargs="+", choices=["tiny", "smollm2"], default=["tiny"])
    parser.add_argument("--smollm2", default="", help="folder or .gguf file of SmolLM2-135M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="counted steps of a round")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--without-trl", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads or len(os.sched_getaffinity(0)))
    has_trl = find_spec("trl") is not None
    if not has_trl and not arguments.without_trl:
        print("TRL is not installed, agentmath is measured alone: pip install 'agentmath[bench]'", file=sys.stderr)
    rows: list[dict[str, Any]] = []
    for name in arguments.models:
        rows += compare(
            shapes(arguments.smollm2)[name],
            rounds=arguments.rounds,
            steps_per_round=arguments.steps,
            with_trl=has_trl and not arguments.without_trl,
        )
    rates = {(r["model"], r["system"]): r["tokens_per_second"] for r in rows}
    ratio = {m: rates[m, "agentmath"] / rates[m, "trl"] for m in arguments.models if (m, "trl") in rates}
    lines = [
        f"{r['model']:8} {r['system']:10} {r['tokens_per_second']:9.0f} tokens/s  {r['seconds_per_step']:.3f} s/step  "
        + "  ".join(f"{name} {share:.0%}" for name, share in r["stages"].items())
        for r in rows
    ] + [f"{model}: {x:.2f} times TRL" for model, x in ratio.items()]
    result = record("train_throughput", vars(arguments), {"rows": rows, "ratio": ratio})
    emit(result, as_json=arguments.json, lines=lines)


if __name__ == "__main__":
    main()
