"""[prompt]: how a question becomes the model's input, and which tag protocol is spoken."""

from __future__ import annotations

from typing import Literal

from agentmath.config.section import Section


class PromptSection(Section):
    dialect: Literal["agentmath", "markdown", "dual_agent", "tool_call"] = "agentmath"
    """How the model calls the tool: <code> tags, python fences, [CODE_START] marks, or JSON in <tool_call> tags."""
    chat: bool = True
    """Wrap system prompt and question in the tokenizer's chat template; false writes them one below the other."""
    system: str = ""
    """Instruction before the question; empty for a model trained from scratch."""
    instructions: bool = False
    """Whether the dialect's own instructions are added to it: for a model that was not trained on the dialect."""
