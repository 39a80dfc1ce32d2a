"""The code tool: a trajectory's programs run one after another in one sandbox session."""

from __future__ import annotations

from dataclasses import dataclass

from agentmath.core.interfaces import Sandbox
from agentmath.core.types import Limits, ToolCall, ToolResult


@dataclass(frozen=True, kw_only=True)
class CodeTool:
    """Python in the sandbox; variables live as long as the trajectory."""

    sandbox: Sandbox
    limits: Limits
    name: str = "code"

    async def open(self, *, seed: int) -> str:
        return await self.sandbox.open_session(seed=seed)

    async def run(self, call: ToolCall, session: str) -> ToolResult:
        return await self.sandbox.execute(call.source, limits=self.limits, session=session)

    async def close(self, session: str) -> None:
        await self.sandbox.close_session(session)
