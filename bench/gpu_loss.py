"""The policy loss on one GPU: what it computes first, then how fast, one JSON line each as soon as it is known.

    python bench/gpu_loss.py [--seconds 500] [--rehearse]

Lines {"what": "machine" | "check" | "roofline" | "time" | "end", ...}. A check or timing that fails is a line with
"fault"; nothing else stops. --rehearse runs small shapes on the CPU, with Triton's interpreter where triton is
installed. `time` rows: path, shape, share of masked rows, milliseconds (medians over CUDA events, caches flushed),
workspace in MiB over inputs and gradients, and the ratio to the three vocabulary products at the measured peak.
Liger's fused linear GRPO loss and cut-cross-entropy (cross-entropy only) run beside ours where they are installed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.update({"TRITON_INTERPRET": "1"} if "--rehearse" in sys.argv else {})
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernels"))

import torch
from torch import Tensor

from agentmath_kernels import Clip, Correction, policy_loss, token_logprobs
from agentmath_kernels.reference import policy_loss_reference
from agentmath_kernels.row_operator import RowOperator, Slopes, TorchRows

FORMULA: dict[str, Any] = {"surrogate": Clip(low=0.2, high=0.28, dual=10.0), "correction": Correction()}
REHEARSAL = "--rehearse" in sys.argv
DEVICE = "cpu" if REHEARSAL else "cuda"
BIG_CHUNK = 4096


def say(what: str, **values: Any) -> None:
    """One line of JSON."""
    print(json.dumps({"what": what, **values}), flush=True)


@dataclass(frozen=True)
class Shape:
    """Tokens, width, vocabulary and the share of tokens outside the mask."""

    tokens: int
    dim: int
    vocab: int
    masked: float


def inputs(shape: Shape, dtype: torch.dtype, seed: int = 0) -> dict[str, Tensor]:
    g = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "hidden": torch.randn(shape.tokens, shape.dim, generator=g, device=DEVICE).to(dtype),
        "lm_head_weight": (torch.randn(shape.vocab, shape.dim, generator=g, device=DEVICE) * shape.dim**-0.5).to(dtype),
        "targets": torch.randint(shape.vocab, (shape.tokens,), generator=g, device=DEVICE),
        "mask": torch.rand(shape.tokens, generator=g, device=DEVICE) >= shape.masked,
        "advantages": torch.randn(shape.tokens, generator=g, device=DEVICE),
        "behaviour_logprobs": torch.randn(shape.tokens, generator=g, device=DEVICE) * 0.1 - 12,
    }


def run_loss(op: Callable[..., Any], x: dict[str, Tensor], **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(loss, dHidden, dWeight)."""
    leaves = {name: x[name].detach().requires_grad_() for name in ("hidden", "lm_head_weight")}
    out = op(**{**x, **leaves}, num_trainable_tokens=max(1, int(x["mask"].sum())), **FORMULA, **options)
    loss = out if isinstance(out, Tensor) else out.loss
    loss.backward()
    return loss.detach(), *(leaf.grad for leaf in leaves.values())  # pyright: ignore[reportReturnType]


def triton_rows() -> RowOperator:
    from agentmath_kernels.triton_rows import TritonRows

    return TritonRows()


def check_rows() -> dict[str, float]:
    """Errors of the kernels against float64 on rows of a real vocabulary, an all-negative and a peaked one too."""
    rows, vocab = (4, 9000) if REHEARSAL else (64, 151936)
    logits = torch.randn(rows, vocab, device=DEVICE) * 3
    logits[1] -= 300
    logits[2, 77] += 60
    logits[3, ::2] = -torch.inf
    targets = torch.arange(rows, device=DEVICE) * 2 + 1
    a, b = torch.randn(rows, device=DEVICE), torch.randn(rows, device=DEVICE) * 0.1
    exact, work = logits.double(), logits.clone()
    ours, theirs = triton_rows(), TorchRows()
    found = ours.read(work, targets, 0.7, want_entropy=True)
    expected = theirs.read(exact, targets, 0.7, want_entropy=True)
    gradient = ours.write(work, targets, 0.7, found, Slopes(a, b))
    wide = theirs.write(exact, targets, 0.7, expected, Slopes(a.double(), b.double()))
    return {
        "logprob": float((found.logprob - expected.logprob).abs().max()),
        "entropy": float((found.entropy - expected.entropy).abs().max()),
        "gradient": float((gradient - wide).abs().max()),
    }


def check_far_rows() -> dict[str, float]:
    """Rows whose offset is beyond 2^31: the last of a chunk equals the same row alone."""
    rows, vocab = (3, 5000) if REHEARSAL else (16384, 151936)
    logits = torch.empty(rows, vocab, device=DEVICE)
    logits[-1] = torch.randn(vocab, device=DEVICE)
    alone, targets = logits[-1:].clone(), torch.full((rows,), 11, device=DEVICE)
    logits[:-1] = 0
    op = triton_rows()
    far, near = op.read(logits, targets, 1.0, want_entropy=True), op.read(alone, targets[:1], 1.0, want_entropy=True)
    return {"logprob": float((far.logprob[-1] - near.logprob[0]).abs()), "elements": float(rows * vocab)}


def check_loss() -> dict[str, float]:
    """bfloat16 inputs against float64 arithmetic on the same values."""
    shape = Shape(24, 32, 500, 0.3) if REHEARSAL else Shape(512, 256, 20000, 0.3)
    x = inputs(shape, torch.bfloat16)
    x["behaviour_logprobs"] = token_logprobs(x["hidden"], x["lm_head_weight"], x["targets"]).float()
    loss, dhidden, dweight = run_loss(policy_loss, x, chunk_bytes=shape.vocab * 4 * 100)
    wide = {k: v.double() if v.is_floating_point() else v for k, v in x.items()}
    expected, ehidden, eweight = run_loss(policy_loss_reference, wide)
    return {
        "loss": float((loss - expected).abs()),
        "dhidden": float((dhidden.double() - ehidden).norm() / ehidden.norm()),
        "dweight": float((dweight.double() - eweight).norm() / eweight.norm()),
    }


def check_repeats() -> dict[str, float]:
    """20 equal calls give equal bits."""
    x = inputs(Shape(24, 32, 500, 0.3) if REHEARSAL else Shape(2048, 512, 32000, 0.3), torch.bfloat16)
    first = run_loss(policy_loss, x)
    again = (run_loss(policy_loss, x) for _ in range(2 if REHEARSAL else 20))
    return {"differing": float(sum(not all(map(torch.equal, first, other)) for other in again))}


BOUNDS = {
    "rows": {"logprob": 3e-4, "entropy": 1e-4, "gradient": 1e-5},
    "far rows": {"logprob": 0.0},
    "loss": {"loss": 1e-3, "dhidden": 1e-2, "dweight": 1e-2},
    "repeats": {"differing": 0.0},
}


def checks() -> bool:
    """All checks, each a line; False when one failed."""
    good = True
    runs = {"rows": check_rows, "far rows": check_far_rows, "loss": check_loss, "repeats": check_repeats}
    for name, run in runs.items():
        if REHEARSAL and find_spec("triton") is None and name in ("rows", "far rows"):
            say("check", name=name, fault="triton is not installed")
            continue
        try:
            found = run()
        except Exception as fault:  # one line for each check, whatever it died of
            say("check", name=name, fault=f"{type(fault).__name__}: {fault}"[:300])
            good = False
            continue
        passed = all(found[key] <= bound for key, bound in BOUNDS[name].items())
        good &= passed
        say("check", name=name, passed=passed, found=found, bounds=BOUNDS[name])
    return good


def milliseconds(run: Callable[[], Any], repeats: int) -> float:
    """Median of timed calls after one that is not counted, the second-level cache flushed before each."""
    run()
    if DEVICE == "cpu":
        begins = [time.perf_counter()]
        for _ in range(repeats):
            run()
            begins.append(time.perf_counter())
        return statistics.median(1e3 * (b - a) for a, b in itertools.pairwise(begins))
    flush = torch.empty(64 << 20, dtype=torch.int32, device=DEVICE)
    times = []
    for _ in range(repeats):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def roofline(shape: Shape) -> float:
    """Measured TFLOP/s of the vocabulary product in bfloat16; also says the copy bandwidth."""
    h = torch.randn(min(BIG_CHUNK, shape.tokens), shape.dim, device=DEVICE).to(torch.bfloat16)
    w = torch.randn(shape.vocab, shape.dim, device=DEVICE).to(torch.bfloat16)
    seconds = milliseconds(lambda: h @ w.t(), 7) / 1e3
    rate = 2 * h.shape[0] * shape.dim * shape.vocab / seconds / 1e12
    block = torch.empty((1 << 20) if REHEARSAL else (1 << 30), dtype=torch.int32, device=DEVICE)
    copied = milliseconds(lambda: block.clone(), 7) / 1e3
    say("roofline", tflops=round(rate, 1), copy_tb_per_s=round(2 * block.nbytes / copied / 1e12, 2))
    return rate


def paths(x: dict[str, Tensor], shape: Shape) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, call) of everything that is measured; others' code where it is installed."""
    for rows in (2048, 4096, 8192):
        yield f"ours, chunks of {rows}", lambda rows=rows: run_loss(policy_loss, x, chunk_bytes=rows * shape.vocab * 4)
    yield (
        "ours, log-probs only",
        lambda: token_logprobs(
            x["hidden"], x["lm_head_weight"], x["targets"], x["mask"], chunk_bytes=BIG_CHUNK * shape.vocab * 4
        ),
    )
    if shape.tokens * shape.vocab * 14 < (60 << 30):
        yield "naive", lambda: run_loss(naive, x)
    if find_spec("liger_kernel") is not None:
        yield "liger fused linear GRPO", lambda: liger(x)
    if find_spec("cut_cross_entropy") is not None:
        yield "cut-cross-entropy (no policy loss)", lambda: cut_cross_entropy(x)


def naive(
    hidden: Tensor, lm_head_weight: Tensor, targets: Tensor, mask: Tensor, *, num_trainable_tokens: int, **x: Any
) -> Tensor:
    logp = torch.log_softmax((hidden @ lm_head_weight.t()).float(), -1).gather(1, targets[:, None]).squeeze(1)
    ratio = (logp - x["behaviour_logprobs"]).exp()
    clipped = ratio.clamp(1 - x["surrogate"].low, 1 + x["surrogate"].high)
    term = -torch.minimum(ratio * x["advantages"], clipped * x["advantages"])
    return (term * mask).sum() / num_trainable_tokens


def liger(x: dict[str, Tensor]) -> None:
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss  # pyright: ignore[reportMissingImports]

    hidden, weight = (x[name].detach().requires_grad_() for name in ("hidden", "lm_head_weight"))
    loss = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, loss_type="bnpo", epsilon_high=0.28)
    sequences = 4
    rows = [t.reshape(sequences, -1, *t.shape[1:]) for t in (hidden, x["targets"], x["mask"], x["behaviour_logprobs"])]
    out = loss(rows[0], weight, rows[1], rows[2].long(), x["advantages"][:sequences], old_per_token_logps=rows[3])
    out[0].backward()


def cut_cross_entropy(x: dict[str, Tensor]) -> None:
    from cut_cross_entropy import linear_cross_entropy  # pyright: ignore[reportMissingImports]

    hidden, weight = (x[name].detach().requires_grad_() for name in ("hidden", "lm_head_weight"))
    linear_cross_entropy(hidden, weight, torch.where(x["mask"], x["targets"], -100)).backward()


def timings(deadline: float, rate: float) -> None:
    """Every shape and path until the time is up."""
    small = [Shape(64, 32, 1000, 0.35)]
    real = [
        Shape(tokens, dim, 151936, masked)
        for tokens, dim, masked in ((16384, 4096, 0.0), (16384, 4096, 0.35), (4096, 2048, 0.0), (98304, 4096, 0.35))
    ]
    for shape in small if REHEARSAL else real:
        x = inputs(shape, torch.bfloat16)
        kept = int(x["mask"].sum())
        floor = 3 * 2 * kept * shape.dim * shape.vocab / rate / 1e9
        for name, run in paths(x, shape):
            if time.monotonic() > deadline:
                return say("end", reason="the time is up", at=f"{name} {shape}")
            try:
                if DEVICE != "cpu":
                    torch.cuda.reset_peak_memory_stats()
                before = 0 if DEVICE == "cpu" else torch.cuda.memory_allocated()
                took = milliseconds(run, 1 if shape.tokens > 50000 else 7)
                extra = 0 if DEVICE == "cpu" else torch.cuda.max_memory_allocated() - before
            except Exception as fault:  # out of memory among them: the next path may fit
                say("time", path=name, shape=vars(shape), fault=f"{type(fault).__name__}: {fault}"[:300])
                continue
            share = 3 if "log-probs" not in name else 1
            say(
                "time",
                path=name,
                shape=vars(shape),
                ms=round(took, 2),
                workspace_mib=round((extra - 4 * shape.vocab * shape.dim) / 2**20),
                floor_ms=round(floor * share / 3, 2),
                ratio_to_floor=round(took / (floor * share / 3), 2),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--rehearse", action="store_true")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    name = "cpu" if REHEARSAL else torch.cuda.get_device_name()
    say("machine", device=name, torch=torch.__version__, python=sys.version.split()[0])
    good = checks()
    rate = roofline(Shape(64, 32, 1000, 0.0) if REHEARSAL else Shape(16384, 4096, 151936, 0.0))
    timings(deadline, rate)
    say("end", checks_passed=good)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
