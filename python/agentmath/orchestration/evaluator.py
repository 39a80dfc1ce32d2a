"""Recipe to evaluator: build.py's sister for commands that train nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from agentmath.agents.self_test import check_agent
from agentmath.agents.single import SingleAgent
from agentmath.config.endpoint import EndpointSection
from agentmath.config.recipe import Recipe
from agentmath.core.interfaces import RolloutEngine, Tokenizer
from agentmath.core.types import JSON, Group
from agentmath.data.mixture import Pool, load_pool
from agentmath.engines.chat_marks import MARKS, MarkedTokenizer
from agentmath.engines.openai_engine import OpenAIEngine
from agentmath.engines.piece_tokenizer import PieceTokenizer
from agentmath.evaluation.modes import Mode
from agentmath.formats.dialects import dialect_named
from agentmath.orchestration.build import build_policy, check_prompts, used_sources
from agentmath.orchestration.engines import build_engine
from agentmath.orchestration.event_loop import run_cancellably
from agentmath.orchestration.subject import describe_model, load_checkpoint
from agentmath.rewards.grader import Grader
from agentmath.rewards.score import score
from agentmath.rollout.episode import Stage
from agentmath.sandbox.local import LocalSandbox, limits_of, open_sandbox
from agentmath.telemetry.run_dir import MANIFEST
from agentmath.tools.code import CodeTool
from agentmath.training.model_files import load_tokenizer
from agentmath.training.tokenizer import FastTokenizer, check_tags

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Evaluator:
    """Everything an evaluation is made of."""

    recipe: Recipe
    model: JSON
    """Who is measured."""
    runner: asyncio.Runner
    pool: Pool
    tokenizer: Tokenizer
    engine: RolloutEngine
    counts: Callable[[], Mapping[str, int]]
    """What the engine counts."""
    grader: Grader
    tool: CodeTool

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; Ctrl-C cancels it and is raised as KeyboardInterrupt."""
        return run_cancellably(self.runner, coroutine)

    @property
    def pieces(self) -> PieceTokenizer | None:
        """The table behind token ids, where nobody knows the model's tokenizer."""
        inner = self.tokenizer.tokenizer if isinstance(self.tokenizer, MarkedTokenizer) else self.tokenizer
        return inner if isinstance(inner, PieceTokenizer) else None

    def agent(self, mode: Mode) -> SingleAgent:
        """The solver of a mode. Raises ConfigError or FormatError where prompt, dialect and tokenizer do not agree."""
        made = SingleAgent(
            tokenizer=self.tokenizer,
            section=mode.prompt(self.recipe.prompt),
            max_tool_output_tokens=self.recipe.rollout.max_tool_output_tokens,
        )
        check_agent(made)
        check_prompts(made, Pool(evaluation=self.pool.evaluation), self.recipe)
        return made

    def stage(self, mode: Mode) -> Stage:
        """Who speaks, generates and executes in a mode, and its budgets. Modes draw independent samples."""
        evaluation = self.recipe.evaluation
        return Stage(
            agent=self.agent(mode),
            engine=self.engine,
            tool=self.tool,
            section=mode.rollout(self.recipe.rollout),
            seed=self.recipe.run.seed,
            purpose=f"eval-{mode.name}",
            temperature=evaluation.temperature,
            top_p=evaluation.top_p,
        )

    def score(self, mode: Mode) -> Callable[[Sequence[Group]], None]:
        """Sets the rewards of a mode's finished trajectories."""
        agent = self.agent(mode)
        return lambda groups: score(groups, self.recipe.reward, lambda t: agent.answer_text(t.tokens), self.grader)


@contextmanager
def open_evaluator(recipe: Recipe, *, restore: Path | None = None) -> Iterator[Evaluator]:
    """Build everything an evaluation needs; leaving ends all processes. restore: a training checkpoint to load."""
    if recipe.run.num_threads:
        torch.set_num_threads(recipe.run.num_threads)
    pool = load_pool(used_sources(recipe.data), seed=recipe.run.seed)
    with asyncio.Runner() as runner, Grader(recipe.grading) as grader:
        sandbox: LocalSandbox | None = None
        served: OpenAIEngine | None = None
        try:
            if recipe.endpoint.url:
                tokenizer = endpoint_tokenizer(recipe)
                served = runner.run(_connect(recipe, tokenizer))
                engine, counts = served, lambda: served.counts
            else:
                policy = build_policy(recipe, pool)
                if restore is not None:
                    load_checkpoint(policy, restore)
                tokenizer, engine, counts = policy.tokenizer, build_engine(policy, recipe.engine), _nothing
            sandbox = runner.run(open_sandbox(recipe.sandbox))
            yield Evaluator(
                recipe=recipe,
                model=describe_model(recipe, restore),
                runner=runner,
                pool=pool,
                tokenizer=tokenizer,
                engine=engine,
                counts=counts,
                grader=grader,
                tool=CodeTool(sandbox=sandbox, limits=limits_of(recipe.sandbox)),
            )
        finally:
            if served is not None:
                runner.run(served.close())
            if sandbox is not None:
                runner.run(sandbox.close())


def endpoint_tokenizer(recipe: Recipe) -> Tokenizer:
    """How a served model's texts become ids. Raises FormatError when a named tokenizer cannot carry them."""
    section, tags = recipe.endpoint, dialect_named(recipe.prompt.dialect).tags
    if not section.tokenizer:
        pieces = PieceTokenizer()
        return MarkedTokenizer(pieces) if section.api == "chat" else pieces
    named = named_tokenizer(section)
    check_tags(named, (*tags, *(MARKS if section.api == "chat" else ())))
    return MarkedTokenizer(named) if section.api == "chat" else named


def named_tokenizer(section: EndpointSection) -> FastTokenizer:
    """The tokenizer that endpoint.tokenizer names. Raises ConfigError when there is none."""
    fast = load_tokenizer(section.tokenizer)
    return FastTokenizer(fast, family=section.tokenizer, eos_ids=[fast.eos_token_id])


def is_checkpoint(path: Path) -> bool:
    """Whether path is a training checkpoint and no exported model."""
    return (path / MANIFEST).is_file()


async def _connect(recipe: Recipe, tokenizer: Tokenizer) -> OpenAIEngine:
    dialect = dialect_named(recipe.prompt.dialect)
    output = dialect.output_open, dialect.output_close
    return OpenAIEngine(recipe.endpoint, tokenizer, output=output, seed=recipe.run.seed)


def _nothing() -> Mapping[str, int]:
    return {}
