"""[engine]: how tokens are generated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class EngineSection(Section):
    kind: Literal["transformers"] = "transformers"
    """The embedded engine decodes with the trainer's own weights."""
    max_rows: int = Field(default=128, ge=1)
    """Sequences decoded together."""
    max_context_tokens: int = Field(default=512, ge=16)
    """Cache positions per row; a context that reaches it ends with stop reason length."""
    max_prefill_tokens: int = Field(default=4096, ge=1)
    """New context tokens processed in one forward pass."""
    tool_latency_steps: int = Field(default=4, ge=0)
    """Decode steps that pass before a tool's result re-enters its row, however fast the tool was. A fixed number makes
    the composition of every batch, and so every rounding, a function of the tokens alone."""
    tool_wait_seconds: float = Field(default=60.0, gt=0)
    """How long decoding waits for one tool result before it goes on without that row."""
