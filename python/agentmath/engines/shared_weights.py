"""Weights in memory that another process may read: a safetensors file without a name.

It lives as long as somebody holds it open, so nothing is left behind however the trainer ends; and it is bounded by
memory alone, where /dev/shm may be small.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor


class SharedWeights:
    """All weights of one version."""

    def __init__(self, version: int, tensors: Mapping[str, Tensor]) -> None:
        """Copies them; names as in the model's own files, tied weights once."""
        self.version = version
        self._descriptor = os.memfd_create(f"agentmath-weights-{version}", os.MFD_CLOEXEC)
        content = memoryview(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}))
        while content:
            content = content[os.write(self._descriptor, content) :]

    @property
    def path(self) -> str:
        """Where processes of this user and machine read it."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def close(self) -> None:
        """Free the memory once nobody reads; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
