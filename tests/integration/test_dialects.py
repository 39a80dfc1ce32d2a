"""Every dialect is trained in: demonstrations that are run, then groups with real tool calls, rewards and an update."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentmath.config.load import load_recipe
from agentmath.core.errors import ConfigError
from agentmath.core.types import ToolStatus
from agentmath.data.demonstrations import demonstrations, program_of
from agentmath.engines.scripted import ScriptedEngine
from agentmath.formats.dialects import DIALECTS
from agentmath.orchestration import loop
from agentmath.orchestration.build import Parts, open_parts
from agentmath.orchestration.demonstrations import render
from agentmath.telemetry.stages import StageClock
from agentmath.training.sft import SFTSettings, train_sft

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"
BUDGETS = {
    "rollout.segment_sampled_tokens": 0,
    "rollout.max_sampled_tokens": 200,
    "rollout.max_context_tokens": 400,
    "engine.max_context_tokens": 400,
    "model.max_context_tokens": 400,
    "training.updates_per_step": 1,
    "sft.steps": 2,
    "data.arithmetic.max_tasks": 60,
}


def supervise(parts: Parts) -> list[float]:
    """Losses of the supervised steps on demonstrations whose programs were run."""
    dialect, recipe = parts.agent.dialect, parts.recipe
    made = demonstrations(parts.pool.train["arithmetic"], tool_share=0.5, seed=0, dialect=dialect)
    rendered = parts.run(render(made, parts.agent, parts.tool, parts.tokenizer, max_tokens=400))
    assert rendered.dropped == {}
    assert len(rendered.samples) == len(made) > 40
    settings = SFTSettings(sft=recipe.sft, training=recipe.training, seed=0)
    held_out, training = rendered.samples[:8], rendered.samples[8:]
    steps = train_sft(parts.policy, parts.sft_optimizer, training, settings, held_out=held_out, state=parts.sft_state)
    return [metrics.values["loss"] for metrics in islice(steps, 2)]


def script(parts: Parts) -> dict[int, list[str]]:
    """Lines for the groups of one step: even samples compute and are right, odd ones guess and are wrong."""
    dialect, rollout = parts.agent.dialect, parts.recipe.rollout
    lines: dict[int, list[str]] = {}
    for ordinal in range(rollout.groups_per_step):
        task = parts.tasks.task_at(ordinal)
        program = program_of(task)
        assert program is not None
        for index in range(rollout.group_size):
            right = [dialect.write_call("I compute.", program.source), dialect.write_answer("", task.answer)]
            lines[(ordinal << 16) | index] = [dialect.write_answer("I guess.", "-1")] if index % 2 else right
    return lines


@pytest.mark.parametrize("name", DIALECTS)
def test_one_step_of_each_kind_in_every_dialect(name: str):
    words = [f"--prompt.dialect={name}", *(f"--{key}={value}" for key, value in BUDGETS.items())]
    with open_parts(load_recipe(str(RECIPE), words)) as parts:
        losses = supervise(parts)
        assert len(losses) == 2
        assert all(loss > 0 for loss in losses)

        engine = ScriptedEngine(script(parts), parts.tokenizer)
        parts.collector.stage = replace(parts.collector.stage, engine=engine)
        collected = loop.collect(parts, StageClock())
        trajectories = [t for group in collected.kept for t in group.trajectories]
        assert len(trajectories) == 16
        assert [t.num_tool_calls for t in trajectories] == [1, 0] * 8
        results = [turn.result for t in trajectories for turn in t.turns if turn.result is not None]
        assert {result.status for result in results} == {ToolStatus.OK}
        assert [t.reward.accuracy for t in trajectories if t.reward] == [1.0, 0.0] * 8
        assert all(t.faults == () for t in trajectories)
        values = loop.update(parts, collected.kept)
        assert values["skipped"] == 0
        assert values["grad_norm"] > 0


def test_a_prompt_that_the_dialect_does_not_read_is_refused_before_training():
    words = ["--prompt.system=Put the answer after ####.", "--prompt.dialect=markdown"]
    with pytest.raises(ConfigError, match=r"'####'.*'markdown' reads"), open_parts(load_recipe(str(RECIPE), words)):
        pass
