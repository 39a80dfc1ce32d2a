"""Protocols at which rooms of the same floor meet; parts are built and handed over in orchestration/build.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentmath.core.types import Completion, Limits, Sampling, StopReason, Task, Tokens, ToolCall, ToolResult


class Tokenizer(Protocol):
    """What the project needs of a tokenizer; engines and agents share one instance."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a message."""
        ...

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        """Ids of text; with allow_special=False no control token can come out of it."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens kept visible."""
        ...

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Text of a conversation in the model's own template."""
        ...


class TaskSource(Protocol):
    """An endless, deterministic stream of training tasks."""

    def task_at(self, ordinal: int) -> Task:
        """The task at a position: a function of the seed and the position alone."""
        ...


class RolloutEngine(Protocol):
    """Token ids in, token ids out. One session is one trajectory: its cache may be kept between requests."""

    async def generate(self, ids: Sequence[int], sampling: Sampling, *, session: int) -> Completion:
        """Continue ids. The whole context is given each time; a cached prefix is the engine's own business.

        Raises EngineError when the request cannot be served (e.g. context longer than the model's).
        """
        ...

    def close_session(self, session: int) -> None:
        """Forget a session's cache; unknown sessions are ignored."""
        ...

    async def update_weights(self, version: int, tensors: Mapping[str, Any] | None) -> None:
        """Later tokens come from weights `version`. None: the weights are shared in process and already new."""
        ...

    async def abort(self, session: int) -> None:
        """End the session's running request; it returns with stop reason ABORTED."""
        ...


class Sandbox(Protocol):
    """Runs untrusted Python. Raises SandboxError only where nothing can be run at all."""

    async def execute(
        self, code: str, *, limits: Limits | None = None, session: str | None = None, stdin: bytes = b""
    ) -> ToolResult:
        """Run code, in the named session's namespace if one is given. Never raises for what the code did."""
        ...

    async def open_session(self, *, seed: int | None = None) -> str:
        """A session whose variables live over several executions. What its programs draw at random is a function of
        seed; without one it is fresh."""
        ...

    async def close_session(self, session: str) -> None:
        """End a session and everything in it."""
        ...

    async def close(self) -> None:
        """End all processes; nothing is left behind."""
        ...


class Tool(Protocol):
    """Something an agent may call by name."""

    @property
    def name(self) -> str: ...

    async def open(self, *, seed: int) -> str:
        """Start a session for one trajectory. Opened again with the same seed, the same calls draw the same numbers."""
        ...

    async def run(self, call: ToolCall, session: str) -> ToolResult:
        """Carry out the call; never raises for what the model wrote."""
        ...

    async def close(self, session: str) -> None:
        """End the session."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What an agent's words amount to. Without call, notice and stop_reason it has not finished speaking."""

    tokens: Tokens
    """The sampled tokens that are kept, with their kinds; what the model wrote past them was cut."""
    call: ToolCall | None = None
    """A tool call to carry out before the agent goes on."""
    notice: str | None = None
    """Text that is inserted in place of a tool result when the call cannot be run; nothing was executed."""
    stop_reason: StopReason | None = None
    """Set when the trajectory ends here."""
    faults: tuple[str, ...] = ()
    """What is wrong with the form of these words, by name."""


class Agent(Protocol):
    """role + prompt + policy, and how its words are read."""

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> str: ...

    @property
    def policy(self) -> str:
        """Name of the weights it speaks with."""
        ...

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts at which generation pauses."""
        ...

    def prompt(self, task: Task) -> Tokens:
        """The tokens that a trajectory starts with."""
        ...

    def read(self, context: Tokens, completion: Completion) -> Action:
        """Interpret what was just sampled after context."""
        ...

    def insert(self, result: ToolResult | str) -> Tokens:
        """The tokens that carry a tool's result, or a notice, back to the model, neutralised."""
        ...

    def answer_text(self, sampled: Tokens) -> str:
        """The text of sampled tokens in which a final answer stands, in a box: never a program."""
        ...
