"""What an engine process serves, whichever library it decodes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from agentmath.core.types import Sampling, StopReason

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """What an engine process is told once, at its start; it travels as JSON."""

    model: str
    """Folder with config.json, weights and tokenizer.json."""
    dtype: str
    """float32 or bfloat16."""
    version: int
    """Of the folder's weights."""
    eos_ids: tuple[int, ...]
    max_rows: int
    max_context_tokens: int
    max_prefill_tokens: int
    num_threads: int
    kv_cache_bytes: int = 0
    """0 lets the library decide; the embedded engine's follows from rows and context."""
    tensor_parallel: int = 1
    mends_reload: bool = True
    """False leaves vLLM's reload on CPUs as it is, which is wrong: for the test that shows the parity gate at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request."""

    key: int
    """Unique in the life of the process."""
    session: int
    ids: Ids
    """The whole context."""
    sampling: Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a request ended."""

    reason: StopReason
    stop_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Newly sampled tokens, and the ending if they are the last: the two are never sent apart."""

    ids: Sequence[int] | Ids
    logprobs: Sequence[float] | Floats
    version: int | Ids
    ending: Ending | None = None


Emit = Callable[[Chunk], None]


class Backend(Protocol):
    """Everything is called on the server's one event loop. Errors are EngineError, in one sentence."""

    async def load(self, spec: LoadSpec) -> Mapping[str, Any]:
        """Load the model; may take long and block. Returns facts for people: versions of libraries and the like.

        Raises EngineError when the library is missing or the model cannot be served.
        """
        ...

    async def generate(self, wanted: Wanted, emit: Emit) -> None:
        """Sample and emit; the last chunk has the ending."""
        ...

    async def abort(self, key: int) -> None:
        """End a request; its last chunk says ABORTED. Unknown keys are ignored."""
        ...

    async def close_session(self, session: int) -> None:
        """Its cache is no longer needed."""
        ...

    async def score(self, rows: Sequence[Ids]) -> list[Floats]:
        """Log-prob of each token but the first of every row, at temperature 1."""
        ...

    async def update_weights(self, version: int, path: str, *, keeps_kv: bool) -> None:
        """Read all weights from a safetensors file. Running requests go on: with keeps_kv on their cache as it is,
        otherwise their context is computed anew."""
        ...

    async def pause(self, *, keeps_kv: bool) -> None:
        """Decode nothing until resume(); requests stay, with their cache or without."""
        ...

    async def resume(self) -> None: ...

    async def reset_prefix_cache(self) -> None:
        """No later request meets a cached prefix of now."""
        ...

    def is_dead(self) -> bool:
        """Whether nothing can be served any more: the process then ends, so that its requests go on elsewhere."""
        ...

    async def check_health(self) -> None:
        """Raises EngineError when nothing can be served any more."""
        ...

    def stats(self) -> Mapping[str, float]: ...
