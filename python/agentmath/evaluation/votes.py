"""Which answers of one problem count as one answer when the most frequent is chosen."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from agentmath.core.types import Trajectory
from agentmath.rewards.clean import canonical, clean
from agentmath.rewards.numbers import plain_number

RIGHT = "right"
"""Right answers are one answer, however they are written."""


def votes_of(trajectories: Sequence[Trajectory]) -> list[Hashable | None]:
    """The vote of each graded trajectory; None for one without an answer.

    Wrong answers are equal when they are the same number, or the same letters in the grader's own spelling: two
    spellings of one wrong formula may count as two answers, which favours the right one.
    """
    return [_vote(t) for t in trajectories]


def _vote(trajectory: Trajectory) -> Hashable | None:
    reward = trajectory.reward
    if reward is None:
        raise ValueError("a sample that was not graded has no vote")
    if reward.accuracy == 1.0:
        return RIGHT
    if reward.extracted is None:
        return None
    letters = canonical(clean(reward.extracted))
    number = plain_number(letters)
    return ("letters", letters) if number is None else ("number", number.value)
