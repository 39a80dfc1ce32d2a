"""[reward]: R = R_acc + [R_acc = 1][N > 0] min(tool_max, tool_alpha + tool_beta N)."""

from __future__ import annotations

from pydantic import Field

from agentmath.config.section import Section


class RewardSection(Section):
    """AgentMath, "Stage 2 - Agentic RL". The tool part pays for calls: watch the logged N."""

    tool_alpha: float = Field(default=0.1, ge=0)
    tool_beta: float = Field(default=0.01, ge=0)
    tool_max: float = Field(default=1.0, ge=0)
