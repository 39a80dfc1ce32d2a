"""A live weight update is right, for every kind of model; and where it is wrong, the parity gate says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from agentmath.core.errors import EngineError
from tiny_models import tiny_policy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "tied", "dtype"),
    [
        ("Qwen3", True, "bfloat16"),
        ("Llama", False, "float32"),
        ("Qwen3Moe", False, "float32"),
        ("Qwen3Moe", False, "bfloat16"),
    ],
)
def test_the_gate_passes_there_and_back(open_vllm: Any, family: str, tied: bool, dtype: str):
    policy = tiny_policy(family, tied=tied, dtype=getattr(torch, dtype))
    with open_vllm(policy) as vllm:

        async def go() -> None:
            await vllm.prove()
            for _ in range(3):
                await vllm.publish()
                await vllm.prove()

        vllm.run(go())


@pytest.mark.slow
@pytest.mark.parametrize(("family", "tied"), [("Qwen3", True), ("Qwen3Moe", False)])
def test_the_gate_catches_what_the_library_does_wrong_on_cpus(open_vllm: Any, family: str, tied: bool):
    """Without our mend a tied head keeps its old weights, and experts are read in the wrong order: no error is raised,
    and outputs do change, so nothing but the gate tells."""
    policy = tiny_policy(family, tied=tied)
    with open_vllm(policy, mends_reload=False) as vllm:

        async def go() -> None:
            assert (await vllm.prove()).mean < 1e-4
            await vllm.publish()
            with pytest.raises(EngineError, match="does not compute with the trainer's weights of version 1"):
                await vllm.prove()

        vllm.run(go())
