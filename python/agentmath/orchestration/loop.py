"""Reinforcement learning, one step after another: the page to read first.

    tasks -> groups of trajectories -> rewards -> filter -> advantages -> samples -> micro-batches -> step -> publish
"""

from __future__ import annotations

from collections.abc import Sequence

from agentmath.algorithms import advantages, filters
from agentmath.core.errors import EngineError
from agentmath.core.types import Group, StopReason
from agentmath.orchestration import checkpoints
from agentmath.orchestration.build import Parts
from agentmath.orchestration.measure import evaluate_all, rollout_metrics
from agentmath.rollout.recorder import write_trajectories
from agentmath.training import packing, samples, step, weights


def train(parts: Parts) -> None:
    """Run optimiser steps until training.steps; every step ends in a state that a checkpoint can hold."""
    recipe, state = parts.recipe, parts.state
    with parts.progress("rl", recipe.training.steps) as progress:
        while state.step < recipe.training.steps:
            clock = parts.new_clock()
            groups, counts = collect(parts, clock)
            with clock.stage("train"):
                metrics = update(parts, groups)
            state.step += 1
            with clock.stage("publish"):
                state.version += 1
                parts.run(weights.publish(parts.policy, parts.engine, state.version))
            values = {**counts, **metrics, **clock.values()}
            parts.writer.write("rl", state.step, values)
            progress.update(state.step, values)
            if recipe.evaluation.every_steps and state.step % recipe.evaluation.every_steps == 0:
                evaluate_all(parts, "rl")
            if state.step % recipe.training.checkpoint_every_steps == 0 or state.step == recipe.training.steps:
                checkpoints.save(parts)


def collect(parts: Parts, clock: StageClock) -> tuple[list[Group], dict[str, float]]:
    """Finished, scored groups worth training on, and what became of the others.

    Dynamic sampling draws again while too few groups are left, at most rollout.max_refills times; then the step trains
    on what there is: no finished work is thrown away, and normalisation counts what was kept.
    """
    recipe, state = parts.recipe, parts.state
    kept: list[Group] = []
    seen: list[Group] = []
    num_stale = 0
    for _ in range(recipe.rollout.max_refills + 1):
        wanted = recipe.rollout.groups_per_step - len(kept) - parts.collector.num_parked
        tasks = state.draw(parts.tasks, max(wanted, 0))
        with clock.stage("rollout"):
            groups = parts.run(
                parts.collector.collect(tasks, group_size=recipe.rollout.group_size, step=state.step)
            )
            parts.refuse_dead_infrastructure(groups)
        with clock.stage("reward"):
            parts.score(groups)
        fresh, stale = parts.collector.drop_stale(groups, version=state.version)
        kept += filters.keep(fresh, recipe.algorithm, min_survivors=recipe.rollout.min_survivors).groups
        seen += groups
        num_stale += stale
        if len(kept) >= recipe.rollout.groups_per_step:
            break
    if seen and state.step % recipe.telemetry.trajectories_every_steps == 0:
        write_trajectories(...)
    return kept, rollout_metrics(seen, kept, num_stale)
