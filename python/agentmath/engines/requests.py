"""What the embedded engine knows about a session and about the request it is working on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from agentmath.core.types import Completion, Sampling, StopReason

Ids = npt.NDArray[np.int32]


@dataclass(slots=True, kw_only=True, eq=False)
class Output:
    """Sampled tokens with all that is known of each; three arrays of one length."""

    ids: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    logprobs: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    versions: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """One call of generate, from its arrival to its completion."""

    session: Session
    context: Ids
    sampling: Sampling
    limit: int
    """Tokens that may be sampled: by the request, and by what is left of the cache's positions."""
    uniforms: npt.NDArray[np.float32]
    """[limit] one for each token, drawn from the request's own seed."""
    future: asyncio.Future[Completion]
    output: Output = field(default_factory=Output)
    """What was sampled before the weights changed under a running request; empty otherwise."""
    is_admitted: bool = False
    """In work, no longer queued; its session's slot cannot be taken away."""
    leader: Request | None = None
    """The request with the same context that is computed on this one's behalf."""

    @property
    def feed(self) -> Ids:
        """Tokens that must be in the cache before the next one is sampled."""
        return self.context if not len(self.output.ids) else np.concatenate([self.context, self.output.ids])

    def complete(self, stop_reason: StopReason, stop_text: str | None = None) -> None:
        """Hand the output to whoever waits; a waiter that has gone is ignored."""
        if not self.future.done():
            self.future.set_result(
                Completion(
                    ids=self.output.ids,
                    logprobs=self.output.logprobs,
                    versions=self.output.versions,
                    stop_reason=stop_reason,
                    stop_text=stop_text,
                )
            )

    def abort(self) -> None:
        """Return what was sampled so far."""
        self.complete(StopReason.ABORTED)

    def fail(self, error: Exception) -> None:
        """Raise error where the request is awaited."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One trajectory as the engine sees it."""

    key: int
    slot: int | None = None
    """Where its keys and values are kept; None when they are not."""
    num_cached: int = 0
    """Positions of the slot that hold keys and values of this session."""
    tokens: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """Tokens of the last completion, context first; the first num_cached of them are in the slot."""
    request: Request | None = None
    due: int | None = None
    """Step at which a session that paused at a stop text re-enters; None when it is not waited for."""
    rejoining: asyncio.Future[None] | None = None
    """Waited for by an owner who is back and does not ask yet."""
    is_closed: bool = False
    """Closed by its owner; forgotten at the next step boundary, or when due."""
    last_step: int = 0
    """Step of its last completion: who waited longest gives its slot up first."""

    @property
    def is_away(self) -> bool:
        """Paused, and neither back nor closed."""
        return self.due is not None and self.request is None and self.rejoining is None and not self.is_closed

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is in work."""
        return self.request is not None and self.request.is_admitted
