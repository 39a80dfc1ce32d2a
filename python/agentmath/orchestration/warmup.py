"""The supervised stage: demonstrations are built or read, run, rendered, and learned."""

from __future__ import annotations

from agentmath.core.errors import DataError
from agentmath.core.types import Demonstration, TrainingSample
from agentmath.data.demonstrations import demonstrations
from agentmath.data.sft_files import read_demonstrations
from agentmath.orchestration.build import Parts
from agentmath.orchestration.demonstrations import render
from agentmath.orchestration.saving import Run, save_sft
from agentmath.telemetry.progress import Progress
from agentmath.telemetry.stages import StageClock
from agentmath.training.sft import SFTSettings, train_sft


def warm_up(run: Run) -> None:
    """Make the supervised steps that are left."""
    parts, recipe, state = run.parts, run.parts.recipe, run.parts.sft_state
    clock = StageClock()
    with Progress(recipe.telemetry, recipe.sft.steps, "sft", first_step=state.step, every_steps=10) as progress:
        training, held_out = _samples(parts, progress)
        settings = SFTSettings(
            sft=recipe.sft,
            training=recipe.training,
            seed=recipe.run.seed,
            inspection_folder=parts.inspection_folder,
        )
        clock.take()
        for metrics in train_sft(parts.policy, parts.sft_optimizer, training, settings, held_out=held_out, state=state):
            seconds = clock.take()
            values = {
                **metrics.values,
                **seconds,
                "tokens_per_second": metrics.values["tokens"] / seconds["seconds/step"],
            }
            run.writer.write("sft", state.step, values)
            progress.update(state.step, values)
            parts.state.sft_step = state.step
            parts.state.sft_seconds += seconds["seconds/step"]
            if state.step % recipe.sft.eval_every_steps == 0 and not state.finished:
                save_sft(run)
    parts.publish(parts.state.version)


def _samples(parts: Parts, progress: Progress) -> tuple[list[TrainingSample], list[TrainingSample]]:
    """(training, held-out) samples; the same every time the run is started."""
    section = parts.recipe.sft
    made = _demonstrations(parts)
    rendered = parts.run(
        render(made, parts.agent, parts.tool, parts.tokenizer, max_tokens=parts.recipe.engine.max_context_tokens)
    )
    dropped = ", ".join(f"{count} {why}" for why, count in sorted(rendered.dropped.items()))
    progress.message(f"{len(rendered.samples)} demonstrations" + (f"; dropped: {dropped}" if dropped else ""))
    if len(rendered.samples) <= section.held_out:
        raise DataError(
            f"{len(rendered.samples)} of {len(made)} demonstrations can be used ({dropped or 'none dropped'}), "
            f"sft.held_out = {section.held_out} are to be kept aside: nothing is left to train on"
        )
    return rendered.samples[section.held_out :], rendered.samples[: section.held_out]


def _demonstrations(parts: Parts) -> list[Demonstration]:
    section, seed = parts.recipe.sft, parts.recipe.run.seed
    if section.path:
        return read_demonstrations(section.path, parts.agent.dialect)
    num_rows = sum(map(len, parts.pool.train.values()))
    tasks = [parts.tasks.task_at(i) for i in range(section.num_demonstrations or num_rows)]
    return demonstrations(
        tasks, tool_share=section.tool_share, seed=seed, explain=section.explain, dialect=parts.agent.dialect
    )
