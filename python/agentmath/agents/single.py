"""One agent that reasons and writes code itself: AgentMath's setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentmath.config.prompt import PromptSection
from agentmath.core.interfaces import Action, Tokenizer
from agentmath.core.types import Completion, SpanKind, StopReason, Task, Tokens, ToolCall, ToolResult
from agentmath.formats.dialect import THINK_CLOSE, THINK_OPEN, Dialect
from agentmath.formats.dialects import dialect_named
from agentmath.formats.output import CUT_MARK, neutralise, output_text, shorten
from agentmath.formats.pieces import pieces, token_of_char


@dataclass(frozen=True, kw_only=True)
class SingleAgent:
    """role + prompt + policy; all it holds is fixed for a run."""

    tokenizer: Tokenizer
    section: PromptSection
    max_tool_output_tokens: int
    name: str = "solver"
    role: str = "reasoning"
    policy: str = "policy"

    @property
    def dialect(self) -> Dialect:
        """How it calls the tool and states its answer."""
        return dialect_named(self.section.dialect)

    @property
    def stop(self) -> tuple[str, ...]:
        return self.dialect.stop

    @property
    def system_text(self) -> str:
        """The recipe's own words, then the dialect's instructions if the recipe asks for them."""
        instructions = self.dialect.instructions if self.section.instructions else ""
        return "\n\n".join(part for part in (self.section.system, instructions) if part)

    def prompt_text(self, task: Task) -> str:
        """The text a trajectory starts with."""
        system = self.system_text
        if not self.section.chat:
            return "\n".join(part for part in (system, task.question) if part) + "\n"
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": task.question})
        return self.tokenizer.render_chat(messages, add_generation_prompt=True)

    def prompt(self, task: Task) -> Tokens:
        ids = self.tokenizer.encode(self.prompt_text(task), allow_special=True)
        return Tokens.inserted(ids, SpanKind.PROMPT)

    def read(self, context: Tokens, completion: Completion) -> Action:
        parts = pieces(completion.ids.tolist(), self.tokenizer)
        if parts and int(completion.ids[-1]) in self.tokenizer.eos_ids:
            parts[-1] = ""
        text = "".join(parts)
        reading = self.dialect.read(text, in_think=self._in_think(context))
        keep = len(parts)
        if reading.stop_reason is StopReason.INVENTED_OUTPUT:
            keep = token_of_char(parts, reading.kept)
        elif reading.kept < len(text) or reading.source is not None or reading.notice is not None:
            keep = min(token_of_char(parts, reading.kept - 1) + 1, len(parts))
        tokens = Tokens(
            ids=completion.ids[:keep],
            logprobs=completion.logprobs[:keep],
            kinds=np.asarray(kinds_of(parts[:keep], reading.spans), dtype=np.uint8),
            versions=completion.versions[:keep],
        )
        if reading.notice is not None:
            return Action(tokens=tokens, notice=reading.notice, faults=reading.faults)
        if reading.source is not None:
            call = ToolCall(tool="code", source=reading.source)
            return Action(tokens=tokens, call=call, faults=reading.faults)
        stop = reading.stop_reason or completion.stop_reason
        if stop is StopReason.EOS and self.final_answer(Tokens.concatenate([context, tokens])) is not None:
            stop = StopReason.ANSWER
        return Action(tokens=tokens, stop_reason=None if stop is StopReason.STOP else stop, faults=reading.faults)

    def insert(self, result: ToolResult | str) -> Tokens:
        text = result if isinstance(result, str) else output_text(result)
        ids = self.tokenizer.encode(neutralise(text), allow_special=False)
        mark = self.tokenizer.encode(CUT_MARK, allow_special=False)
        ids = shorten(ids, mark, self.max_tool_output_tokens)
        opening = self.tokenizer.encode(self.dialect.output_open, allow_special=True)
        closing = self.tokenizer.encode(self.dialect.output_close, allow_special=True)
        return Tokens.inserted([*opening, *ids, *closing], SpanKind.INTERPRETER)

    def final_answer(self, tokens: Tokens) -> str | None:
        """The final answer in sampled text outside of programs."""
        return self.dialect.answer(self._prose(tokens))

    def answer_text(self, sampled: Tokens) -> str:
        """Sampled text outside of programs; an answer that the dialect states without a box is added in one."""
        text = self._prose(sampled)
        if "\\boxed" in text or "\\fbox" in text or (answer := self.dialect.answer(text)) is None:
            return text
        return f"{text}\n\\boxed{{{answer}}}"

    def _prose(self, tokens: Tokens) -> str:
        """Each run of tokens is decoded by itself, so nothing joins over a gap; the end of a message is no text."""
        wanted = _is_prose(tokens.kinds)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
        runs = [tokens.ids[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        ends = self.tokenizer.eos_ids
        return "\n".join(self.tokenizer.decode([i for i in run.tolist() if i not in ends]) for run in runs)

    def _in_think(self, context: Tokens) -> bool:
        """Whether a think section is open at the end of context; the prompt may have opened it with its last words."""
        sampled = _is_prose(context.kinds)
        if not sampled.any():
            prompt = context.ids[context.kinds == SpanKind.PROMPT]
            return self.tokenizer.decode(prompt[-_THINK_WINDOW_TOKENS:].tolist()).rstrip().endswith(THINK_OPEN)
        text = self.tokenizer.decode(context.ids[sampled][-_THINK_WINDOW_TOKENS:].tolist())
        opened, closed = text.rfind(THINK_OPEN), text.rfind(THINK_CLOSE)
        if opened < 0 and closed < 0:
            return bool(context.kinds[sampled][-1] == SpanKind.THINK)
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
