"""[prompt]: how a question becomes the model's input, and which tag protocol is spoken."""

from __future__ import annotations

from typing import Literal

from agentmath.config.section import Section


class PromptSection(Section):
    dialect: Literal["agentmath"] = "agentmath"
    """Tag protocol: <think>, <code>, <interpreter>, \\boxed{}."""
    chat: bool = True
    """Wrap system prompt and question in the tokenizer's chat template; false writes them one below the other."""
    system: str = ""
    """Instruction before the question; empty for a model trained from scratch."""
