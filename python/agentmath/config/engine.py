"""[engine]: how tokens are generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class EngineSection(Section):
    kind: Literal["transformers", "vllm"] = "transformers"
    """transformers: our own decoding over a transformers model. vllm: vLLM, always in a process of its own."""
    replicas: int = Field(default=0, ge=0, le=256)
    """Engine processes. 0: the engine is inside the trainer and decodes with the trainer's own weights, which only
    transformers can; vllm takes 0 for 1."""
    python: str = ""
    """Python that runs engine processes, for an engine that lives in another environment (vLLM pins a torch of its
    own). Empty: the trainer's. Our package need not be installed there; for vllm nothing of it is compiled."""
    num_threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads of each engine process; 0 shares the cores of this machine out."""
    max_rows: int = Field(default=128, ge=1)
    """Sequences decoded together, in each engine."""
    max_context_tokens: int = Field(default=512, ge=16)
    """Cache positions per row; a context that reaches it ends with stop reason length."""
    max_prefill_tokens: int = Field(default=4096, ge=1)
    """New context tokens processed in one forward pass."""
    tool_latency_steps: int = Field(default=4, ge=0)
    """Decode steps that pass before a tool's result re-enters its row, however fast the tool was. A fixed number makes
    the composition of every batch, and so every rounding, a function of the tokens alone."""
    tool_wait_seconds: float = Field(default=60.0, gt=0)
    """How long decoding waits for one tool result before it goes on without that row."""
    kv_cache_bytes: int = Field(default=0, ge=0)
    """vllm: memory for keys and values of each process. 0: what max_rows full contexts need but at most 4 GiB on a CPU,
    vLLM's own share of the memory on a GPU."""
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    """vllm: GPUs that one engine is spread over."""
    kv_on_update: Literal["drop", "keep"] = "drop"
    """What a weight update does to requests that run. drop: their context is computed anew. keep (vllm): they go on
    over keys and values of the old weights, which saves time and blurs what a token's version means."""
    parity_tolerance: float = Field(default=0.0, ge=0)
    """Largest mean difference, in nats, between the log-probs of fixed prompts in an engine process and in the trainer
    after a weight update; above it the run ends. 0: 0.001 in float32, 0.05 in bfloat16."""
    start_seconds: float = Field(default=600.0, gt=0)
    """How long an engine process may take to load its model."""
    answer_seconds: float = Field(default=300.0, gt=0)
    """How long an engine process may take for a weight update and other operations."""
    stall_seconds: float = Field(default=300.0, gt=0)
    """An engine process that has requests and sends no token for so long is ended; its requests go on elsewhere."""
    max_restarts: int = Field(default=3, ge=0)
    """How often one engine process is started again in a run, with growing pauses."""
    socket_dir: str = ""
    """Folder for sockets and logs of engine processes; empty takes the system's temporary folder."""

    @property
    def num_processes(self) -> int:
        """Engine processes that will run."""
        return max(self.replicas, int(self.kind == "vllm"))


_OF_EMBEDDED = ("tool_latency_steps", "tool_wait_seconds")
_OF_VLLM = ("kv_cache_bytes", "tensor_parallel", "kv_on_update")
_OF_PROCESSES = (
    "python",
    "num_threads",
    *_OF_VLLM,
    "parity_tolerance",
    "start_seconds",
    "answer_seconds",
    "stall_seconds",
    "max_restarts",
    "socket_dir",
)


def idle_engine_keys(section: EngineSection) -> Iterator[tuple[tuple[str, ...], str]]:
    """(keys, why) of settings that have no effect."""
    if not section.num_processes:
        yield _OF_PROCESSES, "engine.replicas = 0 keeps the engine inside the trainer"
        return
    yield _OF_EMBEDDED, "engine processes do not wait for tools"
    if section.kind != "vllm":
        yield _OF_VLLM, "only engine.kind vllm knows them"
