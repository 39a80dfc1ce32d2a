"""Checks that need the parts of a run."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from agentmath.agents.single import SingleAgent
from agentmath.config.load import load_recipe
from agentmath.config.prompt import PromptSection
from agentmath.core.errors import ConfigError
from agentmath.core.types import Task
from agentmath.data.mixture import Pool
from agentmath.engines.byte_tokenizer import ByteTokenizer
from agentmath.orchestration.build import check_prompts


@pytest.mark.parametrize(("question", "num_tokens"), [("x" * 25, None), ("\u4e2d" * 10, 31)])
def test_the_prompt_with_the_most_tokens_is_the_one_that_must_fit(question: str, num_tokens: int | None) -> None:
    agent = SingleAgent(tokenizer=ByteTokenizer(), section=PromptSection(chat=False), max_tool_output_tokens=8)
    tasks = [Task(id="most characters", question="x" * 20, answer="1"), Task(id="this", question=question, answer="1")]
    recipe = load_recipe("quickstart", ["--rollout.max_context_tokens=31", "--rollout.max_sampled_tokens=8"])
    if num_tokens is None:
        check_prompts(agent, Pool(train={"s": tasks}), recipe)
        return
    with pytest.raises(ConfigError, match=f"the prompt of task 'this' has {num_tokens} tokens"):
        check_prompts(agent, Pool(train={"s": tasks}), recipe)
