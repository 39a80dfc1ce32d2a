"""When a session re-enters: a function of the tokens alone, however fast or slow its tool was.

A session that paused at a stop text is expected back. It re-enters a fixed number of steps later: if it is back sooner
it waits for its step, if it is not back by then the step waits for it. All others are not waited for: a session whose
request ended otherwise, one that was closed, and one whose own task has since asked for another session (an agent that
speaks inside a tool call; to wait for the one would be to wait for the other).

What ends may bring others in or send them away: behind each step in which a request ended the loop is turned until it
is quiet, so that all of that falls between the same two steps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextvars import ContextVar

from agentmath.engines.requests import Session

_QUIET_TURNS = 4
"""Turns of the event loop without news after which nobody is believed to be about to ask."""


class Turnstile:
    """Counts steps and says who must be there before the next one."""

    def __init__(self, *, latency_steps: int, wait_seconds: float) -> None:
        self.step = 0
        """Steps taken; idle ones are skipped, not waited for."""
        self._latency_steps, self._wait_seconds = latency_steps, wait_seconds
        self._num_news = 0
        self._news = asyncio.Event()
        self._asking: ContextVar[Session | None] = ContextVar("agentmath_asking_session", default=None)

    def bind(self) -> None:
        """Serve another event loop from now on."""
        self._news = asyncio.Event()

    def signal(self) -> None:
        """Something was asked for, closed or aborted."""
        self._num_news += 1
        self._news.set()

    def enter(self, session: Session) -> None:
        """The running task asks for `session`: whatever session it or its creator asked for before is not awaited."""
        earlier = self._asking.get()
        if earlier is not None and earlier is not session:
            earlier.due = None
        self._asking.set(session)
        self.signal()

    def pause(self, session: Session) -> None:
        """The session stopped at a stop text in the current step."""
        session.due = self.step + 1 + self._latency_steps

    def admits(self, session: Session) -> bool:
        """Whether a session that asks may enter the next step."""
        return session.due is None or session.due <= self.step

    async def settle(self) -> None:
        """Turn the loop until it is quiet: everybody who can ask or leave now shall do so before the next step."""
        quiet = 0
        while quiet < _QUIET_TURNS:
            seen = self._num_news
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._num_news == seen else 0

    def release_rejoining(self, sessions: Iterable[Session]) -> bool:
        """Let those go on that are back and due; True if there were any."""
        due = [s for s in sessions if s.rejoining is not None and self.admits(s)]
        for session in due:
            assert session.rejoining is not None
            if not session.rejoining.done():
                session.rejoining.set_result(None)
            session.rejoining = None
        return bool(due)

    def skip_idle_steps(self, sessions: Iterable[Session]) -> bool:
        """Go to the step at which the first expected session re-enters; False when none is expected."""
        expected = [s.due for s in sessions if s.due is not None and not s.is_closed]
        self.step = max(self.step, min(expected, default=0))
        return bool(expected)

    async def await_due(self, sessions: Iterable[Session]) -> bool:
        """Wait until every session due by now is back or closed; True if there was anything to wait for."""
        due = [s for s in sessions if s.is_away and self.admits(s)]
        deadline = asyncio.get_running_loop().time() + self._wait_seconds
        while missing := [s for s in due if s.is_away]:
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                keys = ", ".join(str(s.key) for s in missing[:5])
                logging.getLogger(__name__).warning(
                    "%d session(s) did not come back from a tool within engine.tool_wait_seconds = %g (first: %s); "
                    "decoding goes on without them",
                    *(len(missing), self._wait_seconds, keys),
                )
                for session in missing:
                    session.due = None
        return bool(due)
