"""From finished, advantaged groups to the flat sequences the trainer reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentmath.core.errors import TrainingError
from agentmath.core.types import Group, Tokens, TrainingSample, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSet:
    """What one step trains on.

    Samples whose advantage is exactly 0 stay in: they are part of every denominator (see algorithms/losses.py), and
    train_step gives them no forward pass.
    """

    samples: list[TrainingSample]
    num_untrainable: int
    """Trajectories left out because the model sampled nothing in them that can be a target."""

    def of_policy(self, policy: str) -> list[TrainingSample]:
        """The samples that feed one policy's gradient."""
        return [s for s in self.samples if s.policy == policy]


def from_groups(groups: Iterable[Group], policy_of_agent: Mapping[str, str]) -> SampleSet:
    """One sample per trajectory and policy: same tokens, trainable where an agent of that policy spoke.

    Prompts and tool output are never trainable. key is "ordinal/sample_index".

    Raises TrainingError for a trajectory without an advantage, an agent without a policy, or a sampled token without
    behaviour log-prob: each would train on something else than was meant.

    Example, one agent: prompt QQQ, turn ttCcc/C + output IooI, turn aaE gives 16 ids of which 9 are trainable.
    """
    samples: list[TrainingSample] = []
    num_untrainable = 0
    for group in groups:
        for trajectory in group.trajectories:
            made = _of_trajectory(trajectory, policy_of_agent)
            samples += made
            num_untrainable += not made
    return SampleSet(samples=samples, num_untrainable=num_untrainable)


def prompt_of(sample: TrainingSample) -> str:
    """What identifies the prompt of a sample: the part of its key before the sample index."""
    return sample.key.rpartition("/")[0] or sample.key


def num_targets(sample: TrainingSample) -> int:
    """Trainable tokens that something precedes: those the loss is over."""
    return int(np.count_nonzero(sample.trainable[1:]))


def _of_trajectory(trajectory: Trajectory, policy_of_agent: Mapping[str, str]) -> list[TrainingSample]:
    key = f"{trajectory.ordinal}/{trajectory.sample_index}"
    if trajectory.advantage is None or not np.isfinite(trajectory.advantage):
        raise TrainingError(
            f"trajectory {key} has advantage {trajectory.advantage}: "
            "filter groups and assign advantages before making samples"
        )
    tokens = trajectory.tokens
    _check(key, tokens)
    made: list[TrainingSample] = []
    for policy, trainable in _masks(key, trajectory, policy_of_agent).items():
        if not trainable.any():
            continue
        made.append(
            TrainingSample(
                policy=policy,
                ids=tokens.ids,
                trainable=trainable,
                behaviour_logprobs=tokens.logprobs,
                versions=tokens.versions,
                advantage=trajectory.advantage,
                key=key,
                prefix_key=str(trajectory.ordinal),
                prefix_tokens=len(trajectory.prompt),
            )
        )
    return made


def _masks(key: str, trajectory: Trajectory, policy_of_agent: Mapping[str, str]) -> dict[str, npt.NDArray[np.bool_]]:
    """[T] mask of each policy that spoke, in order of first appearance. Position 0 has no context: never a target."""
    masks: dict[str, npt.NDArray[np.bool_]] = {}
    start = len(trajectory.prompt)
    for turn in trajectory.turns:
        policy = policy_of_agent.get(turn.agent)
        if policy is None:
            known = ", ".join(sorted(policy_of_agent)) or "none"
            raise TrainingError(f"trajectory {key}: agent {turn.agent!r} has no policy; agents with one: {known}")
        mask = masks.setdefault(policy, np.zeros(trajectory.num_context_tokens, dtype=np.bool_))
        mask[start : start + len(turn.tokens)] = turn.tokens.trainable
        mask[0] = False
        start += len(turn.tokens)
    return masks


def _check(key: str, tokens: Tokens) -> None:
    missing = np.flatnonzero(tokens.trainable & ~np.isfinite(tokens.logprobs))
    if missing.size:
        raise TrainingError(
            f"trajectory {key}: {missing.size} sampled tokens have no finite behaviour log-prob, the first at position "
            f"{missing[0]} ({tokens.logprobs[missing[0]]}); the engine must return one for every token it samples"
        )


def token_counts(samples: Sequence[TrainingSample]) -> list[int]:
    """num_targets of each sample."""
    return [num_targets(s) for s in samples]
