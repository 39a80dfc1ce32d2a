"""Compile the shipped Triton kernels for GPUs that need not be here; one JSON line for each kernel and target.

    python tests/kernels/compile_triton.py

stack is what a thread spills to memory, in bytes; shared what a program takes of the multiprocessor's memory, in bytes.
AMD code objects carry their own figures: registers and spills as counted by the compiler.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from agentmath_kernels import triton_rows

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
FLOATS = "*fp32"
TYPES = {"targets": "*i64", "inverse_temperature": "fp32", "vocab": "i32", "row_stride": "i32"}


def variants() -> list[tuple[str, Any, dict[str, Any]]]:
    """(name, kernel, compile-time constants) of everything that is launched."""
    read, write = triton_rows.read_kernel, triton_rows.write_kernel
    return [
        (f"{name}{' with entropy' if flag else ''}", kernel, {constant: flag, "BLOCK": triton_rows.BLOCK})
        for name, kernel, constant in (("read", read, "WANT_ENTROPY"), ("write", write, "HAS_ENTROPY"))
        for flag in (False, True)
    ]


def compiled(kernel: Any, constants: dict[str, Any], target: GPUTarget) -> Any:
    """The kernel for a target, pointers aligned to 16 bytes as torch allocates them."""
    signature = {name: "constexpr" if name in constants else TYPES.get(name, FLOATS) for name in kernel.arg_names}
    positions = dict(enumerate(kernel.arg_names))
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in positions.items() if signature[name].startswith("*")}
    places = {(i,): constants[name] for i, name in positions.items() if name in constants}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places, attrs=aligned)
    return triton.compile(source, target=target, options={"num_warps": triton_rows.NUM_WARPS})


def number(text: str, pattern: str) -> int:
    """The number that a tool writes behind a word."""
    found = re.search(pattern + r"\s*(\d+)", text)
    assert found, f"no {pattern} in {text[:200]}"
    return int(found.group(1))


def figures(kernel: Any) -> dict[str, int]:
    """Registers of a thread, stack and shared bytes."""
    shared = int(kernel.metadata.shared)
    if "cubin" not in kernel.asm:
        said = kernel.asm["amdgcn"]
        registers, stack = number(said, r"\.vgpr_count:"), number(said, r"\.vgpr_spill_count:")
        return {"registers": registers, "stack": stack, "shared": shared}
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        said = subprocess.run(
            [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    return {"registers": number(said, "REG:"), "stack": number(said, "STACK:"), "shared": shared}


def main() -> None:
    for target_name, target in TARGETS.items():
        for name, kernel, constants in variants():
            row = {"kernel": name, "target": target_name, **figures(compiled(kernel, constants, target))}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
