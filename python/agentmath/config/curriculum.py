"""[curriculum]: budgets of a trajectory that grow by stage when too many trajectories run into them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from agentmath.config.rollout import RolloutSection
from agentmath.config.section import Section

BUDGETS = ("max_sampled_tokens", "max_context_tokens", "max_tool_calls", "max_segments")


class CurriculumSection(Section):
    max_sampled_tokens: tuple[int, ...] = ()
    """rollout.max_sampled_tokens of each stage; empty leaves it as [rollout] says. So with the other three."""
    max_context_tokens: tuple[int, ...] = ()
    max_tool_calls: tuple[int, ...] = ()
    max_segments: tuple[int, ...] = ()
    truncation_rate: float = Field(default=0.1, gt=0, lt=1)
    """A stage ends when a larger share of the trajectories that ended was cut off by a budget."""
    window_steps: int = Field(default=1, ge=1)
    """Steps that the share is a mean over; each stage starts to count anew."""


def stages(rollout: RolloutSection, curriculum: CurriculumSection) -> tuple[RolloutSection, ...]:
    """[rollout] as it stands in each stage, first to last; without a curriculum there is one."""
    lists = {key: getattr(curriculum, key) for key in BUDGETS if getattr(curriculum, key)}
    count = max(map(len, lists.values()), default=0)
    if not count:
        return (rollout,)
    return tuple(rollout.model_copy(update={key: values[i] for key, values in lists.items()}) for i in range(count))


def curriculum_faults(rollout: RolloutSection, curriculum: CurriculumSection) -> Iterator[str]:
    """One sentence for each list that is no curriculum; stages() may be asked only when there is none."""
    lists = {key: getattr(curriculum, key) for key in BUDGETS if getattr(curriculum, key)}
    if len({len(values) for values in lists.values()}) > 1:
        counts = ", ".join(f"{key} {len(values)}" for key, values in lists.items())
        yield f"the lists of [curriculum] have different lengths ({counts}): give each one value for every stage"
    least = {"max_sampled_tokens": 1, "max_context_tokens": 2, "max_tool_calls": 0, "max_segments": 1}
    for key, values in lists.items():
        if list(values) != sorted(values) or values[0] < least[key]:
            yield f"curriculum.{key} = {list(values)}: budgets start at {least[key]} or more and never shrink"


def curriculum_warnings(rollout: RolloutSection, curriculum: CurriculumSection) -> Iterator[str]:
    """One sentence for each setting that nothing reads."""
    fields = RolloutSection.model_fields
    lists = [key for key in BUDGETS if getattr(curriculum, key)]
    for key in lists:
        if getattr(rollout, key) != fields[key].default:
            yield f"rollout.{key} = {getattr(rollout, key)} has no effect: curriculum.{key} gives it for each stage"
    if len(stages(rollout, curriculum)) == 1:
        rule = [k for k in ("truncation_rate", "window_steps") if getattr(curriculum, k) != _default(k)]
        if rule:
            yield f"{', '.join(f'curriculum.{k}' for k in rule)} without effect: there is only one stage"


def _default(key: str) -> object:
    return CurriculumSection.model_fields[key].default
