"""Recipe to objects: the only place where parts are wired together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from agentmath.agents.self_test import check_agent
from agentmath.agents.single import SingleAgent
from agentmath.config.curriculum import stages
from agentmath.config.data import GENERATED, DataSection
from agentmath.config.recipe import Recipe
from agentmath.config.rollout import RolloutSection
from agentmath.core.errors import ConfigError
from agentmath.core.interfaces import Tokenizer
from agentmath.core.types import Group, Task
from agentmath.data.demonstrations import demonstrations
from agentmath.data.mixture import Pool, TaskStream, load_pool
from agentmath.engines.transformers_engine import TransformersEngine
from agentmath.formats.dialects import dialect_named
from agentmath.orchestration.engines import Engine, open_engine, prove, publish
from agentmath.orchestration.event_loop import loop_factory, run_cancellably
from agentmath.orchestration.state import RunState
from agentmath.rewards.grader import Grader
from agentmath.rewards.score import score
from agentmath.rollout.collector import Collector
from agentmath.rollout.episode import Stage
from agentmath.rollout.scheduler import Scheduler, settings_of
from agentmath.sandbox.local import LocalSandbox, limits_of, open_sandbox
from agentmath.tools.code import CodeTool
from agentmath.training.optim import Optimizer
from agentmath.training.policy import Policy, load_policy
from agentmath.training.sft import SFTState
from agentmath.training.step import StepSettings
from agentmath.training.tokenizer import check_tags, check_template

T = TypeVar("T")
_NUM_CORPUS_TASKS = 4000
"""Demonstrations that a new tokenizer is trained on."""


@dataclass(kw_only=True)
class Parts:
    """Everything a run is made of."""

    recipe: Recipe
    runner: asyncio.Runner
    policy: Policy
    engine: Engine
    sandbox: LocalSandbox
    grader: Grader
    agent: SingleAgent
    tool: CodeTool
    collector: Collector
    pool: Pool
    tasks: TaskStream
    state: RunState
    optimizer: Optimizer
    sft_optimizer: Optimizer
    sft_state: SFTState
    budgets: tuple[RolloutSection, ...]
    """[rollout] in each stage of the curriculum."""
    inspection_folder: Path | None = None
    """Where batches with non-finite numbers are kept."""

    @property
    def tokenizer(self) -> Tokenizer:
        return self.policy.tokenizer

    @property
    def rollout(self) -> RolloutSection:
        """[rollout] as it stands in the present stage of the curriculum."""
        return self.budgets[self.collector.budget_stage]

    def enter_stage(self) -> None:
        """Give trajectories the budgets of the present stage; those that wait go on under them too."""
        self.collector.stage = replace(self.collector.stage, section=self.rollout)

    @property
    def step_settings(self) -> StepSettings:
        return StepSettings(
            algorithm=self.recipe.algorithm,
            training=self.recipe.training,
            temperature=self.recipe.rollout.temperature,
            horizon_tokens=self.rollout.max_sampled_tokens,
            inspection_folder=self.inspection_folder,
        )

    def publish(self, version: int) -> dict[str, float]:
        """Make the policy's weights, now called `version`, those that later tokens come from; returns how far engine
        processes are from the trainer. Raises EngineError when that is too far."""
        return self.run(publish(self.policy, self.engine, self.agent, self.pool, version))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the run's one event loop; Ctrl-C cancels it and is raised as KeyboardInterrupt."""
        return run_cancellably(self.runner, coroutine)

    def beside_rollouts(self, work: Callable[[], T]) -> T:
        """Do the trainer's work; rollouts that need not pause for it go on meanwhile."""
        return work() if self.collector.pauses else self.run(asyncio.to_thread(work))

    def score(self, groups: Sequence[Group]) -> None:
        """Set the rewards of finished trajectories."""
        score(groups, self.recipe.reward, lambda t: self.agent.answer_text(t.tokens), self.grader)


@contextmanager
def open_parts(recipe: Recipe, *, model_path: Path | None = None) -> Iterator[Parts]:
    """Build everything a recipe names; leaving ends all processes. model_path overrides where weights come from."""
    if recipe.run.num_threads:
        torch.set_num_threads(recipe.run.num_threads)
    pool = load_pool(used_sources(recipe.data), seed=recipe.run.seed)
    policy = build_policy(recipe, pool, model_path)
    agent = SingleAgent(
        tokenizer=policy.tokenizer,
        section=recipe.prompt,
        max_tool_output_tokens=recipe.rollout.max_tool_output_tokens,
    )
    check_agent(agent)
    check_prompts(agent, pool, recipe)
    with asyncio.Runner(loop_factory=loop_factory()) as runner, Grader(recipe.grading) as grader:
        sandbox = runner.run(open_sandbox(recipe.sandbox))
        try:
            folder = str(model_path or recipe.model.path)
            with open_engine(policy, recipe.engine, runner, folder=folder) as engine:
                runner.run(prove(policy, engine, agent, pool))
                parts = assemble(
                    recipe, runner, sandbox, grader=grader, policy=policy, agent=agent, pool=pool, engine=engine
                )
                try:
                    yield parts
                finally:
                    runner.run(parts.collector.close())
        finally:
            runner.run(sandbox.close())


def assemble(
    recipe: Recipe,
    runner: asyncio.Runner,
    sandbox: LocalSandbox,
    *,
    grader: Grader,
    policy: Policy,
    agent: SingleAgent,
    pool: Pool,
    engine: Engine,
) -> Parts:
    """Parts that have been made, put together."""
    budgets = stages(recipe.rollout, recipe.curriculum)
    tool = CodeTool(sandbox=sandbox, limits=limits_of(recipe.sandbox))
    stage = Stage(
        agent=agent,
        engine=engine,
        tool=tool,
        section=budgets[0],
        seed=recipe.run.seed,
        purpose="rl",
        temperature=recipe.rollout.temperature,
        rejoin=engine.rejoin if isinstance(engine, TransformersEngine) else None,
    )
    scheduler = Scheduler(settings_of(budgets, recipe.curriculum))
    return Parts(
        recipe=recipe,
        runner=runner,
        policy=policy,
        engine=engine,
        sandbox=sandbox,
        grader=grader,
        agent=agent,
        tool=tool,
        collector=Collector(stage=stage, scheduler=scheduler, pauses=must_pause(engine, recipe.rollout)),
        pool=pool,
        tasks=TaskStream(pool.train, pool.weights, seed=recipe.run.seed),
        state=RunState(),
        optimizer=Optimizer(policy.named_parameters(), recipe.optimizer, total_steps=recipe.training.steps),
        sft_optimizer=Optimizer(policy.named_parameters(), recipe.sft_optimizer, total_steps=recipe.sft.steps),
        sft_state=SFTState(),
        budgets=budgets,
    )


def used_sources(sections: Sequence[DataSection]) -> list[DataSection]:
    """Sources that have something to read: an evaluation set without a file is left out."""
    return [s for s in sections if s.path or s.kind in GENERATED or s.role != "eval"]


def build_policy(recipe: Recipe, pool: Pool, model_path: Path | None = None) -> Policy:
    """The model, its template and its tags checked."""
    section = recipe.model if model_path is None else recipe.model.model_copy(update={"path": str(model_path)})
    corpus = None if section.path else _corpus(pool, recipe)
    policy = load_policy(section, name="policy", seed=recipe.run.seed, corpus=corpus)
    check_tags(policy.tokenizer, (*dialect_named(recipe.prompt.dialect).tags, "\\boxed{1}"))
    if recipe.prompt.chat:
        # A trajectory is one assistant message, tool output included: there is no older answer to rewrite.
        has_system = bool(recipe.prompt.system) or recipe.prompt.instructions
        check_template(policy.tokenizer, system=has_system, num_answers=1)
    return policy


def must_pause(engine: Engine, section: RolloutSection) -> bool:
    """Whether rollouts stop while the weights change: always where the engine decodes with the trainer's own."""
    return section.mode != "async" or isinstance(engine, TransformersEngine)


def check_prompts(agent: SingleAgent, pool: Pool, recipe: Recipe) -> None:
    """Raise ConfigError when a task's prompt leaves no room to answer within rollout.max_context_tokens."""
    limit = stages(recipe.rollout, recipe.curriculum)[0].max_context_tokens
    tasks = [t for tasks in (*pool.train.values(), *pool.evaluation.values()) for t in tasks]
    frame = len(agent.prompt_text(Task(id="", question="?", answer="")).encode())
    # A token holds at least one byte, so most prompts need not be tokenised to know that they fit.
    suspects = [t for t in tasks if frame + len(t.question.encode()) >= limit]
    lengths = [len(agent.prompt(t)) for t in suspects]
    needed = max(lengths, default=0)
    if needed >= limit:
        longest = suspects[lengths.index(needed)]
        raise ConfigError(
            f"the prompt of task {longest.id!r} has {needed} tokens, rollout.max_context_tokens = {limit} leaves no "
            f"room for an answer: raise it (and engine.max_context_tokens) above {needed}, or leave long tasks out"
        )


def _corpus(pool: Pool, recipe: Recipe) -> list[str]:
    """Texts that a new tokenizer is trained on: questions and both kinds of demonstration."""
    tasks = [t for tasks in pool.train.values() for t in tasks][:_NUM_CORPUS_TASKS]
    dialect = dialect_named(recipe.prompt.dialect)
    made = demonstrations(tasks, tool_share=0.5, seed=recipe.run.seed, dialect=dialect)
    return [f"{d.task.question}\n{''.join(d.turns)}" for d in made]
