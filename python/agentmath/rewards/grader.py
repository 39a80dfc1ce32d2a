"""Many answers, graded in order: plain numbers at once, everything else in killable workers."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

from agentmath.config.grading import GradingSection
from agentmath.rewards.answer import Verdict, failed, no_answer, quick_verdict
from agentmath.rewards.extract import Form, extract
from agentmath.rewards.workers import WorkerPool

_WINDOW = 256
"""Questions that are read ahead of the oldest one without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One prediction and what it is held against."""

    gold: str
    prediction: str
    form: Form = "box"


class Grader:
    """Owns the workers; starts them when first needed. Use it in a with statement, or close it."""

    def __init__(self, section: GradingSection) -> None:
        self.section = section
        self._settings = section.model_dump()
        self._pool = WorkerPool(
            "agentmath.rewards.worker",
            num_workers=section.num_workers,
            answer_seconds=section.answer_seconds,
            memory_bytes=section.worker_memory_bytes,
        )

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def grade_many(self, questions: Iterable[Question | Verdict]) -> Iterator[Verdict]:
        """Verdicts in the order of the questions, which are read at most _WINDOW ahead. Never raises for an answer.

        A verdict among the questions is passed on. An answer that takes longer than answer_seconds or crashes its
        worker has match None, and delays the others by no more than that.
        """
        ahead: deque[Verdict | int] = deque()
        waiting: dict[int, str] = {}
        done: dict[int, Verdict] = {}
        try:
            for question in questions:
                ahead.append(self._begin(question, waiting))
                while ahead and (len(ahead) >= _WINDOW or not isinstance(ahead[0], int) or ahead[0] in done):
                    yield self._finish(ahead.popleft(), waiting, done)
            while ahead:
                yield self._finish(ahead.popleft(), waiting, done)
        finally:
            if waiting:
                self._pool.abandon()

    def _begin(self, question: Question | Verdict, waiting: dict[int, str]) -> Verdict | int:
        """The verdict, or the ticket of the request whose reply will bring it."""
        if isinstance(question, Verdict):
            return question
        prediction = extract(question.prediction, question.form, self.section)
        if prediction is None:
            return no_answer()
        verdict = quick_verdict(question.gold, prediction, self.section)
        if verdict is not None:
            return verdict
        ticket = self._pool.submit([question.gold, prediction, self._settings])
        waiting[ticket] = prediction
        return ticket

    def _finish(self, begun: Verdict | int, waiting: dict[int, str], done: dict[int, Verdict]) -> Verdict:
        if not isinstance(begun, int):
            return begun
        while begun not in done:
            for reply in self._pool.wait():
                prediction = waiting.pop(reply.ticket)
                if reply.text is None:
                    done[reply.ticket] = failed(prediction, reply.error)
                else:
                    match, rule, reason = json.loads(reply.text)
                    done[reply.ticket] = Verdict(match=match, extracted=prediction, rule=rule, reason=reason)
        return done.pop(begun)
