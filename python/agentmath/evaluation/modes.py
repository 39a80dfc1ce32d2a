"""Modes of evaluation, as data: what the solver may do, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentmath.config.prompt import PromptSection
from agentmath.config.rollout import RolloutSection
from agentmath.formats.dialects import dialect_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way of solving. A team of agents is one more of these, with an assembly of its own."""

    name: str
    has_tool: bool
    """Whether programs are run; without it the first call ends the sample, and is counted."""

    def prompt(self, section: PromptSection) -> PromptSection:
        """[prompt] for this mode: without a tool, a model that is told the rules is told only how to answer."""
        if self.has_tool or not section.instructions:
            return section
        words = (
            f"Solve the problem step by step. State the final answer as {dialect_named(section.dialect).answer_form}."
        )
        system = "\n\n".join(part for part in (section.system, words) if part)
        return section.model_copy(update={"system": system, "instructions": False})

    def rollout(self, section: RolloutSection) -> RolloutSection:
        """[rollout] for this mode: whole samples, in one pass each."""
        calls = section.max_tool_calls if self.has_tool else 0
        # What the infrastructure loses is counted, and tried again when the command is given again.
        none = dict.fromkeys(
            ("segment_sampled_tokens", "segment_tool_calls", "max_running_context_tokens", "max_retries"), 0
        )
        return section.model_copy(update={**none, "mode": "batch", "max_tool_calls": calls})


MODES: Mapping[str, Mode] = {
    mode.name: mode for mode in (Mode(name="r_only", has_tool=False), Mode(name="r_code", has_tool=True))
}
