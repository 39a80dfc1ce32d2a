"""Reinforcement learning, one step after another: the page to read first.

tasks -> groups of trajectories -> rewards -> filter -> advantages -> samples -> update -> publish
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agentmath.algorithms import advantages, filters, overlong
from agentmath.config.curriculum import BUDGETS
from agentmath.core.types import Group
from agentmath.orchestration.build import Parts
from agentmath.orchestration.measure import measure, refuse_dead_infrastructure
from agentmath.orchestration.reference import reference_policy
from agentmath.orchestration.saving import Run, rollouts_written_on_failure, save_rl
from agentmath.rollout.recorder import write_trajectories
from agentmath.telemetry.metrics import group_metrics
from agentmath.telemetry.progress import Progress
from agentmath.telemetry.stages import StageClock
from agentmath.training import samples, step
from agentmath.training.policy import Policy


@dataclass(kw_only=True)
class Collected:
    """What one step's rollouts came to."""

    kept: list[Group] = field(default_factory=list)
    """Groups to train on."""
    seen: list[Group] = field(default_factory=list)
    """All groups that ended in this step, the dropped ones included."""
    counts: dict[str, float] = field(default_factory=dict)
    """What was dropped, by reason."""

    def add(self, groups: list[Group], kept: filters.Kept, num_stale: int) -> None:
        self.seen += groups
        self.kept += kept.groups
        for name, value in {**kept.counts, "groups_stale": num_stale}.items():
            self.counts[name] = self.counts.get(name, 0.0) + value


def train(run: Run) -> None:
    """Make the optimiser steps that are left. Between two steps the run is in a state that a checkpoint can hold."""
    parts, recipe, state = run.parts, run.parts.recipe, run.parts.state
    reference, clock = reference_policy(run), StageClock()
    with Progress(recipe.telemetry, recipe.training.steps, "grpo", first_step=state.step) as progress:
        while state.step < recipe.training.steps:
            with rollouts_written_on_failure(run):
                collected = collect(parts, clock)
            with clock.stage("train"):
                values = parts.beside_rollouts(partial(update, parts, collected.kept, reference))
            with clock.stage("publish"):
                values |= parts.publish(state.version + 1)
            state.step += 1
            state.version += 1
            with clock.stage("record"):
                record(run, collected)
            report(run, progress, {**figures(parts, collected), **values, **clock.take()})
            grow_budgets(parts, progress.message)
            must_measure = recipe.evaluation.every_steps and state.step % recipe.evaluation.every_steps == 0
            is_last = state.step == recipe.training.steps
            must_save = is_last or state.step % recipe.training.checkpoint_every_steps == 0
            if must_measure or must_save:
                parts.run(parts.collector.pause())
            if must_measure:
                measure(run, "rl", progress.message)
            if must_save:
                save_rl(run)


def collect(parts: Parts, clock: StageClock) -> Collected:
    """Finished, scored groups worth training on, and what became of the others.

    How many tasks are drawn and when, and what ends the step's rollouts, follows from rollout.mode. Dynamic sampling
    asks again while too few groups are left, at most rollout.max_refills times; then the step trains on what there is:
    finished work is never thrown away, and normalisation counts what was kept.
    """
    rollout, state, collector = parts.rollout, parts.state, parts.collector
    algorithm, seed = parts.recipe.algorithm, parts.recipe.run.seed
    collected = Collected()
    for _ in range(rollout.max_refills + 1):
        missing = rollout.groups_per_step - len(collected.kept)
        draw = partial(state.draw, parts.tasks)
        with clock.stage("rollout"):
            groups = parts.run(collector.collect(draw, wanted=missing, step=state.step, version=state.version))
        refuse_dead_infrastructure(groups)
        with clock.stage("reward"):
            parts.score(groups)
            overlong.punish(groups, algorithm, max_sampled_tokens=rollout.max_sampled_tokens)
        fresh, num_stale = collector.drop_stale(groups, version=state.version)
        kept = filters.keep(fresh, algorithm, min_survivors=rollout.min_survivors, seed=seed)
        collected.add(groups, kept, num_stale)
        if len(collected.kept) >= rollout.groups_per_step:
            break
    return collected


def update(parts: Parts, groups: list[Group], reference: Policy | None = None) -> dict[str, float]:
    """One optimiser step on groups; its metrics, or why there was none. reference is for a KL penalty."""
    state = parts.state
    advantages.assign(groups, parts.recipe.algorithm)
    made = samples.from_groups(groups, {parts.agent.name: parts.agent.policy})
    metrics = step.train_step(
        parts.policy,
        parts.optimizer,
        made.samples,
        parts.step_settings,
        step=state.step,
        version=state.version,
        reference=reference,
    )
    return {**metrics.values, "untrainable": float(made.num_untrainable), "skipped": float(metrics.skipped is not None)}


def figures(parts: Parts, collected: Collected) -> dict[str, float]:
    """What the step's rollouts came to, and where those stand that are not in it."""
    return {**group_metrics(collected.seen), **collected.counts, **parts.collector.figures()}


def record(run: Run, collected: Collected) -> None:
    """Write the step's trajectories; state.step is already the number of steps made."""
    state, telemetry = run.parts.state, run.parts.recipe.telemetry
    state.num_tokens += sum(t.num_context_tokens for g in collected.seen for t in g.trajectories)
    if collected.seen and state.step % telemetry.trajectories_every_steps == 0:
        path = run.directory.trajectories(state.step)
        write_trajectories(path, collected.seen, state.step, run.parts.tokenizer.decode)


def grow_budgets(parts: Parts, say: Callable[[str], None]) -> None:
    """Enter the next stage of the curriculum when too many of the trajectories that ended were cut off by a budget."""
    if parts.collector.end_step():
        parts.enter_stage()
        budgets = ", ".join(f"{key} {getattr(parts.rollout, key)}" for key in BUDGETS)
        stage = f"stage {parts.collector.budget_stage + 1} of {len(parts.budgets)}"
        say(f"step {parts.state.step}: budgets grow, {stage}: {budgets}")


def report(run: Run, progress: Progress, values: dict[str, float]) -> None:
    """One line of metrics, one refresh of the display."""
    seconds, state = values["seconds/step"], run.parts.state
    state.train_seconds += seconds
    num_tokens = values.get("context_tokens", 0.0) * values["trajectories"]
    values["tokens_per_second"] = num_tokens / seconds if seconds else 0.0
    if len(run.parts.budgets) > 1:
        values["budget_stage"] = float(run.parts.collector.budget_stage)
    run.writer.write("rl", state.step, values)
    progress.update(state.step, values)
