"""One agent that reasons and writes code itself: AgentMath's setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentmath.config.prompt import PromptSection
from agentmath.core.interfaces import Action, Tokenizer
from agentmath.core.types import Completion, SpanKind, StopReason, Task, Tokens, ToolCall, ToolResult
from agentmath.formats import agentmath as dialect
from agentmath.formats.answer import boxed_answer
from agentmath.formats.pieces import pieces, token_of_char

CUT_MARK = "\n[... output truncated ...]\n"


@dataclass(frozen=True, kw_only=True)
class SingleAgent:
    """role + prompt + policy; all it holds is fixed for a run."""

    tokenizer: Tokenizer
    section: PromptSection
    max_tool_output_tokens: int
    name: str = "solver"
    role: str = "reasoning"
    policy: str = "policy"
    stop: tuple[str, ...] = dialect.STOP

    def prompt_text(self, task: Task) -> str:
        """The text a trajectory starts with."""
        if not self.section.chat:
            return "\n".join(part for part in (self.section.system, task.question) if part) + "\n"
        messages = [{"role": "system", "content": self.section.system}] if self.section.system else []
        messages.append({"role": "user", "content": task.question})
        return self.tokenizer.render_chat(messages, add_generation_prompt=True)

    def prompt(self, task: Task) -> Tokens:
        ids = self.tokenizer.encode(self.prompt_text(task), allow_special=True)
        return Tokens.inserted(ids, SpanKind.PROMPT)

    def read(self, context: Tokens, completion: Completion) -> Action:
        parts = pieces(completion.ids.tolist(), self.tokenizer)
        reading = dialect.read("".join(parts), in_think=self._in_think(context))
        keep = len(parts)
        if reading.stop_reason is StopReason.INVENTED_OUTPUT:
            keep = token_of_char(parts, reading.kept)
        elif reading.source is not None or reading.stop_reason is not None:
            keep = min(token_of_char(parts, reading.kept - 1) + 1, len(parts))
        tokens = Tokens(
            ids=completion.ids[:keep],
            logprobs=completion.logprobs[:keep],
            kinds=np.asarray(kinds_of(parts[:keep], reading.spans), dtype=np.uint8),
            versions=completion.versions[:keep],
        )
        if reading.source is not None and not reading.source.strip():
            return Action(tokens=tokens, notice=dialect.EMPTY_BLOCK_NOTICE)
        if reading.source is not None:
            return Action(tokens=tokens, call=ToolCall(tool="code", source=reading.source))
        stop = reading.stop_reason or completion.stop_reason
        if stop is StopReason.STOP:
            return Action(tokens=tokens)
        if stop is StopReason.EOS and boxed_answer(self.answer_text(Tokens.concatenate([context, tokens]))) is not None:
            stop = StopReason.ANSWER
        return Action(tokens=tokens, stop_reason=stop)

    def insert(self, result: ToolResult | str) -> Tokens:
        text = result if isinstance(result, str) else dialect.output_text(result)
        ids = self.tokenizer.encode(dialect.neutralise(text), allow_special=False)
        if len(ids) > self.max_tool_output_tokens:
            mark = self.tokenizer.encode(CUT_MARK, allow_special=False)
            room = max(self.max_tool_output_tokens - len(mark), 2)
            ids = ids[: room - room // 2] + mark + ids[len(ids) - room // 2 :]
        opening = self.tokenizer.encode(dialect.OUTPUT_OPEN, allow_special=True)
        closing = self.tokenizer.encode(dialect.OUTPUT_CLOSE, allow_special=True)
        return Tokens.inserted([*opening, *ids, *closing], SpanKind.INTERPRETER)

    def answer_text(self, sampled: Tokens) -> str:
        """Sampled text outside of programs; each run of tokens is decoded by itself, so nothing joins over a gap."""
        wanted = _is_prose(sampled.kinds)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
        runs = [sampled.ids[a:b].tolist() for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return "\n".join(self.tokenizer.decode(run) for run in runs)

    def _in_think(self, context: Tokens) -> bool:
        """Whether a think section is open at the end of context; it may have been opened by the prompt."""
        prose = context.ids[(context.kinds != SpanKind.CODE) & (context.kinds != SpanKind.INTERPRETER)]
        text = self.tokenizer.decode(prose[-_THINK_WINDOW_TOKENS:].tolist())
        opened, closed = text.rfind(dialect.THINK_OPEN), text.rfind(dialect.THINK_CLOSE)
        if opened < 0 and closed < 0:
            sampled = context.kinds[_is_prose(context.kinds)]
            return len(sampled) > 0 and sampled[-1] == SpanKind.THINK
        return opened > closed


_THINK_WINDOW_TOKENS = 32


def _is_prose(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return (kinds == SpanKind.THINK) | (kinds == SpanKind.ANSWER)


def kinds_of(parts: Sequence[str], spans: Sequence[tuple[int, SpanKind]]) -> tuple[int, ...]:
    """SpanKind of each token: that of its first character; a token without characters goes with the one after it."""
    kinds: list[int] = []
    position, index = 0, 0
    for part in parts:
        while index < len(spans) - 1 and position >= spans[index][0]:
            index += 1
        kinds.append(int(spans[index][1]))
        position += len(part)
    return tuple(kinds)
