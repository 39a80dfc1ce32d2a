"""The start-up test of an agent: what its prompt asks for is what its dialect reads, and one exchange goes round."""

from __future__ import annotations

import re

from agentmath.agents.single import SingleAgent
from agentmath.core.errors import ConfigError, FormatError
from agentmath.core.types import Completion, StopReason, Task, Tokens
from agentmath.formats.dialect import Dialect
from agentmath.formats.dialects import DIALECTS

_TASK = Task(id="self-test", question="?", answer="42")
_PROGRAM = 'print(f"{6*7}")'
_ANSWER_FORMS = {
    "\\boxed": (re.compile(r"\\f?box"), "\\boxed{42}"),
    "####": (re.compile("####"), "#### 42"),
    "Answer:": (re.compile(r"\banswer:", re.IGNORECASE), "Answer: 42"),
    "<answer>": (re.compile("<answer>"), "<answer>42</answer>"),
    "the final answer is ANSWER": (
        re.compile(r"answer is:?[ \t]*(?:[\[<{($]|\.\.\.|answer\b|x\b)", re.IGNORECASE),
        "The final answer is 42",
    ),
}
"""Ways in which prompts ask for the answer: how each is told, and an example of what then comes."""


def check_agent(agent: SingleAgent) -> None:
    """Raise ConfigError when prompt and dialect contradict each other, FormatError when tokens do not carry it."""
    check_prompt(agent.prompt_text(_TASK), agent.dialect)
    check_exchange(agent)


def check_prompt(prompt: str, dialect: Dialect) -> None:
    """Raise ConfigError when a prompt asks for calls or answers that the dialect does not read.

    A prompt that asks for several forms is fine as long as the dialect reads one of them.
    """
    others = [other for other in DIALECTS.values() if other.call_open in prompt]
    if others and dialect not in others:
        raise ConfigError(
            f"the prompt asks for calls that begin with {others[0].call_open}, but prompt.dialect = "
            f"{dialect.name!r} reads {dialect.call_open}: no call would ever be run. "
            f"Set prompt.dialect = {others[0].name!r}, or change prompt.system (or the chat template)"
        )
    asked = {words: example for words, (told, example) in _ANSWER_FORMS.items() if told.search(prompt)}
    if asked and not any(dialect.answer(example) == _TASK.answer for example in asked.values()):
        raise ConfigError(
            f"the prompt asks for an answer with {next(iter(asked))!r}, but prompt.dialect = {dialect.name!r} reads "
            f"{dialect.answer_form}: right answers would be scored 0. Ask for that in prompt.system"
        )


def check_exchange(agent: SingleAgent) -> None:
    """Let the agent read a canned call and a canned answer. Raises FormatError when they do not come back whole."""
    dialect = agent.dialect
    said = agent.tokenizer.encode(dialect.write_call("Multiply.", _PROGRAM), allow_special=True)
    context = agent.prompt(_TASK)
    action = agent.read(context, Completion.unsampled(said, StopReason.STOP))
    if action.call is None or action.call.source != _PROGRAM or len(action.tokens) != len(said):
        found = action.call.source if action.call is not None else None
        raise FormatError(
            f"with this tokenizer the program {_PROGRAM!r} of a call in prompt.dialect = {dialect.name!r} is read "
            f"as {found!r}: use another dialect, or a tokenizer that keeps the signs of its tags"
        )
    context = Tokens.concatenate([context, action.tokens, agent.insert(_TASK.answer)])
    said = agent.tokenizer.encode(dialect.write_answer("", _TASK.answer), allow_special=True)
    action = agent.read(context, Completion.unsampled([*said, agent.tokenizer.eos_ids[0]], StopReason.EOS))
    answer = agent.final_answer(Tokens.concatenate([context, action.tokens]))
    if action.stop_reason is not StopReason.ANSWER or answer != _TASK.answer:
        raise FormatError(
            f"with this tokenizer the answer {_TASK.answer!r} in prompt.dialect = {dialect.name!r} is read as "
            f"{answer!r}: use another dialect, or a tokenizer that keeps the signs of its tags"
        )
