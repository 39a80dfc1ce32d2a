"""The Triton kernels in their interpreter, and compiled for GPUs that are not here."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="triton is not installed: pip install 'agentmath[gpu]'")

from agentmath_kernels.row_operator import Slopes, TorchRows  # noqa: E402

COMPILER = Path(__file__).parent / "compile_triton.py"
LIMITS = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
"""Shared bytes that a program may take."""


@pytest.fixture(scope="module")
def interpreted() -> Any:
    """The operator with its kernels run by Triton's interpreter (see conftest.py)."""
    if torch.cuda.is_available():
        pytest.skip("a GPU is here: the kernels are compiled and not interpreted")
    from agentmath_kernels.triton_rows import TritonRows

    return TritonRows()


def chunk(kind: str, rows: int, vocab: int) -> Any:
    g = torch.Generator().manual_seed(vocab)
    logits = torch.randn(rows, vocab, generator=g) * 3
    match kind:
        case "all negative":
            logits -= 300
        case "peaked":
            logits[:, vocab // 2] += 50
        case "ten thousand":
            logits = logits.sign() * 1e4 + logits
        case "first block without a chance":
            logits[:, : vocab - 1] = -math.inf
    return logits


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["random", "all negative", "peaked", "ten thousand", "first block without a chance"])
@pytest.mark.parametrize("vocab", [1, 17, 4096, 4097, 8200])
def test_both_kernels_agree_with_float64(interpreted: Any, kind: str, vocab: int):
    logits, targets = chunk(kind, 3, vocab), torch.tensor([vocab - 1, vocab - 1, vocab - 1])
    a, b = torch.tensor([1.0, -0.5, 2.0]), torch.tensor([0.3, 0.0, -0.1])
    exact, work = logits.double(), logits.clone()
    size = 1 + float(logits[logits.isfinite()].abs().max())
    ours = interpreted.read(work, targets, 0.7, want_entropy=True)
    theirs = TorchRows().read(exact, targets, 0.7, want_entropy=True)
    assert (ours.logprob - theirs.logprob).abs().max() <= 1e-6 * size
    assert (ours.entropy - theirs.entropy).abs().max() <= 4e-6 * size
    gradient = interpreted.write(work, targets, 0.7, ours, Slopes(a, b))
    expected = TorchRows().write(exact, targets, 0.7, theirs, Slopes(a.double(), b.double()))
    assert (gradient - expected).abs().max() <= 4e-6 * size


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_broken_row_stays_in_its_row(interpreted: Any):
    logits, targets = chunk("random", 4, 5000), torch.tensor([3, 3, 3, 3])
    logits[1, 4990], logits[2], logits[3, 7] = math.nan, -math.inf, math.inf
    ours = interpreted.read(logits, targets, 1.0, want_entropy=True)
    assert ours.logprob.isnan().tolist() == ours.entropy.isnan().tolist() == [False, True, True, True]
    gradient = interpreted.write(logits, targets, 1.0, ours, Slopes(torch.tensor([1.0, 0, 0, 0])))
    assert gradient[0].isfinite().all() and gradient[0].any() and not gradient[1:].any()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_rows_launch_nothing(interpreted: Any):
    empty = torch.empty(0, 9)
    figures = interpreted.read(empty, torch.empty(0, dtype=torch.long), 1.0, want_entropy=True)
    assert figures.logprob.shape == figures.entropy.shape == (0,)
    assert interpreted.write(empty, torch.empty(0, dtype=torch.long), 1.0, figures, Slopes(torch.empty(0))).shape == (
        0,
        9,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Figures of every kernel on every target; compiled in a process where the interpreter is off."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, COMPILER], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_kernel_compiles_for_every_target(built: list[dict[str, Any]]):
    found = {(row["target"], row["kernel"]) for row in built}
    kernels = {"read", "read with entropy", "write", "write with entropy"}
    assert found == {(target, kernel) for target in LIMITS for kernel in kernels}


def test_no_kernel_spills_or_takes_more_shared_memory_than_there_is(built: list[dict[str, Any]]):
    print("\n".join(f"{r['target']:7} {r['kernel']:19} {r['registers']:4} registers {r['shared']:6} B" for r in built))
    assert [row for row in built if row["stack"] or row["shared"] > LIMITS[row["target"]]] == []
