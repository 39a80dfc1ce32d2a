"""Scripted completions through the real episode loop and the real sandbox: what a dialect makes of them.

    row -> Play (lines of one scripted session) -> rollout.crew.run_all -> Played (what was run, what counts)

A row that cannot be read is a RowError; what a completion says never is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationError

from agentmath.agents.single import SingleAgent
from agentmath.config.prompt import PromptSection
from agentmath.config.rollout import RolloutSection
from agentmath.config.section import Section
from agentmath.core.errors import ConfigError
from agentmath.core.interfaces import Sandbox
from agentmath.core.types import Limits, StopReason, Task, Trajectory
from agentmath.data.files import Fault, Row
from agentmath.engines.byte_tokenizer import END, ByteTokenizer
from agentmath.engines.scripted import ScriptedEngine
from agentmath.formats.dialects import dialect_named
from agentmath.formats.output import CUT_MARK, printed_text, shorten
from agentmath.formats.stored import generations
from agentmath.rollout.crew import run_all
from agentmath.rollout.episode import Stage, engine_session
from agentmath.tools.code import CodeTool

MAX_TOKENS = 16 << 20
"""Bytes of one trajectory."""
MODES = ("rollout", "offline")
_END_TEXT = "<|im_end|>"
"""At the end of a completion it is the end of the message, anywhere else it is text."""
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SAID = {
    StopReason.MAX_TOOL_CALLS: "tool_limit",
    StopReason.INVENTED_OUTPUT: "format_error",
}


class ReplaySettings(Section):
    """Budgets of one row."""

    max_tool_calls: int = Field(default=96, ge=0)
    max_consecutive_invalid: int = Field(default=3, ge=1)
    """Calls in a row that cannot be run before the trajectory ends."""
    max_output_chars: int = Field(default=20_000, ge=4)
    """Length of an output; the middle of a longer one is cut."""
    timeout_s: float = Field(default=2.0, gt=0, le=3600, allow_inf_nan=False)
    """CPU time of a program; its wall time is five times as much."""
    finish_reason: Literal["stop", "length"] = "stop"
    """length: the completions end as if a token limit had cut them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What one row asks for."""

    number: int
    """Of the row, counted from 1."""
    agent: SingleAgent
    lines: tuple[tuple[int, ...], ...]
    """Generations in order, as bytes."""
    settings: ReplaySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What became of it."""

    executed: tuple[str, ...]
    outputs: tuple[str, ...]
    """What each program printed, as it printed it; what the model saw of it is neutralised."""
    truncated: bool
    """Whether model text was dropped."""
    final_answer: str | None
    faults: tuple[str, ...]
    """What is wrong with the form of the completions."""
    stop_reason: str
    """answer, eos, code (the script ends at a call), length, tool_limit, invalid_limit, format_error or error."""
    error: str | None
    """Why the sandbox failed."""
    kept_text: str
    """Model text that counts."""

    def as_json(self) -> dict[str, Any]:
        """What the command prints."""
        return {
            "n_code_blocks": len(self.executed),
            "executed": list(self.executed),
            "outputs": list(self.outputs),
            "truncated": self.truncated,
            "final_answer": self.final_answer,
            "format_ok": not self.faults and self.error is None,
            "stop_reason": self.stop_reason,
            "faults": list(self.faults),
            "error": self.error,
        }


def read_play(row: Row) -> Play:
    """The play of a row {"dialect", "mode"?, "completion", "settings"?}. Raises RowError."""
    name = row.cell(("dialect",), "dialect")
    try:
        dialect = dialect_named(name) if isinstance(name, str) else None
    except ConfigError as error:
        raise row.error(Fault.WRONG_TYPE, f": {error}") from error
    if dialect is None:
        raise row.error(Fault.WRONG_TYPE, ', column "dialect": expected the name of a dialect')
    mode = row.value(("mode",)) or MODES[0]
    if mode not in MODES:
        raise row.error(Fault.WRONG_TYPE, f', column "mode": expected {" or ".join(MODES)}, found {mode!r:.40}')
    settings = _settings(row)
    texts = _completions(row)
    if mode == "offline":
        texts = generations("".join(texts), dialect)
    lines = tuple(_bytes(text) for text in texts)
    if sum(map(len, lines)) > MAX_TOKENS:
        raise row.error(Fault.TOO_LONG, f": the completions have more than {MAX_TOKENS:,} bytes")
    agent = SingleAgent(
        tokenizer=ByteTokenizer(),
        section=PromptSection.model_validate({"chat": False, "dialect": name}),
        max_tool_output_tokens=settings.max_output_chars,
    )
    return Play(number=row.number, agent=agent, lines=lines, settings=settings)


def _settings(row: Row) -> ReplaySettings:
    given = row.value(("settings",))
    try:
        return ReplaySettings.model_validate({} if given is None else given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "settings"
        known = ", ".join(ReplaySettings.model_fields)
        raise row.error(Fault.WRONG_TYPE, f", settings: {key}: {first['msg']}; known: {known}") from error


def _completions(row: Row) -> list[str]:
    """Generations in order; the pieces of one that came in pieces are joined."""
    given = row.cell(("completion",), "completion")
    entries = [given] if isinstance(given, str) else given
    if not isinstance(entries, list):
        raise row.error(Fault.WRONG_TYPE, ', column "completion": expected a text or a list of texts')
    pieces = [entry if isinstance(entry, list) else [entry] for entry in entries]
    if not all(isinstance(piece, str) for entry in pieces for piece in entry):
        raise row.error(Fault.WRONG_TYPE, ', column "completion": expected texts, or lists of texts for pieces')
    return ["".join(entry) for entry in pieces]


def _bytes(text: str) -> tuple[int, ...]:
    """Ids of a completion; the halves of a character that two pieces had between them are one again."""
    whole = _HALVES.sub(lambda pair: _joined(*pair.group()), text.removesuffix(_END_TEXT))
    ids = ByteTokenizer().encode(whole, allow_special=False)
    return (*ids, END) if text.endswith(_END_TEXT) else tuple(ids)


def _joined(high: str, low: str) -> str:
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))


async def play(wanted: Play, sandbox: Sandbox, limits: Limits) -> Played:
    """Play one row; limits hold but for the time that its settings allow. Never raises for what it says."""
    settings, agent = wanted.settings, wanted.agent
    line_end = StopReason.LENGTH if settings.finish_reason == "length" else StopReason.EOS
    task = Task(id=str(wanted.number), question="", answer="")
    trajectory = Trajectory(task=task, sample_index=0, ordinal=wanted.number, prompt=agent.prompt(task))
    session = engine_session(trajectory)
    engine = ScriptedEngine({session: wanted.lines}, agent.tokenizer, max_context_tokens=1 << 40, line_end=line_end)
    timed = Limits(
        cpu_seconds=settings.timeout_s,
        wall_seconds=5 * settings.timeout_s,
        memory_bytes=limits.memory_bytes,
        output_bytes=limits.output_bytes,
        file_bytes=limits.file_bytes,
    )
    section = RolloutSection(
        max_sampled_tokens=1 << 40,
        max_context_tokens=1 << 40,
        max_tool_calls=settings.max_tool_calls,
        max_tool_output_tokens=settings.max_output_chars,
        max_invalid_calls=settings.max_consecutive_invalid,
    )
    stage = Stage(
        agent=agent,
        engine=engine,
        tool=CodeTool(sandbox=sandbox, limits=timed),
        section=section,
        seed=0,
        purpose="replay",
        temperature=1.0,
    )
    await run_all([trajectory], stage, step=0)
    return _played(trajectory, agent, engine.said.get(session, []), settings, ran_out=session in engine.ran_out)


def _played(
    trajectory: Trajectory,
    agent: SingleAgent,
    said: Sequence[Sequence[int]],
    settings: ReplaySettings,
    *,
    ran_out: bool,
) -> Played:
    tokens = trajectory.tokens
    run = [(turn.call.source, turn.result) for turn in trajectory.turns if turn.call and turn.result]
    stop = trajectory.stop_reason
    assert stop is not None
    reason = _SAID.get(stop, stop.value)
    if ran_out:
        reason = "code" if trajectory.turns and not trajectory.turns[-1].tokens.trainable.all() else "eos"
    return Played(
        executed=tuple(source for source, _ in run),
        outputs=tuple(shorten(printed_text(result), CUT_MARK, settings.max_output_chars) for _, result in run),
        truncated=_is_truncated(trajectory, iter(said)),
        final_answer=agent.final_answer(tokens),
        faults=trajectory.faults,
        stop_reason=reason,
        error=None if ran_out else trajectory.error,
        kept_text=agent.tokenizer.decode(tokens.ids[tokens.trainable].tolist()),
    )


def _is_truncated(trajectory: Trajectory, said: Iterator[Sequence[int]]) -> bool:
    """Whether something that was said is not in the trajectory.

    What stands behind a call is not lost when the output that is inserted there begins with it.
    """
    rest: Sequence[int] = ()
    for turn in trajectory.turns:
        sampled = turn.tokens.trainable
        num_left = sum(1 for i in turn.tokens.ids[sampled].tolist() if i != END)
        while num_left > len(rest):
            num_left -= len(rest)
            rest = [i for i in next(said) if i != END]
        rest = rest[num_left:]
        if not sampled.all():
            lost = bytes(rest).lstrip(b"\r\n")
            if not bytes(turn.tokens.ids[~sampled].tolist()).lstrip(b"\n").startswith(lost):
                return True
            rest = ()
    return bool(rest) or any(i != END for line in said for i in line)
