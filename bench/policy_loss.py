"""The policy loss, forward and backward: ours by backend beside dense logits, plain and compiled, in one run.

    python bench/policy_loss.py [--json] [--tokens 2048 --dim 576 --vocab 49152 --masked 0.4] [--device cpu]
                                [--dtypes float32 bfloat16] [--paths naive native torch liger compile] [--repeats 3]

naive forms logits [tokens, vocab] in float32 and lets autograd keep what it wants; compile is the same under
torch.compile; liger is Liger-Kernel's chunked loss by torch operators, as it runs on a CPU (left out where it is not
installed). bfloat16 is measured by default where the processor multiplies it; elsewhere torch takes minutes a call.
Every path of a type runs in a process of its own, as peak memory is a process's; its first call is not counted.
extra_mib: growth of peak resident memory over what was held before the first call (CUDA: of allocated memory), the
gradients of both inputs included. Seconds are medians over repeats in each of two rounds, which take turns.
ratio_to_naive: each path's seconds and extra memory over those of naive. floor: the three products of the vocabulary
head over the unmasked rows alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from common import emit, record
from torch import Tensor

from agentmath_kernels import Clip, Correction, policy_loss, token_logprobs

ROUNDS = 2
SEQUENCES = 8
"""Of equal length; an advantage belongs to a sequence."""
CLIP = Clip(low=0.2, high=0.28)
OTHERS = ("naive", "liger", "compile")
OURS = ("native", "triton", "torch")


def inputs(a: argparse.Namespace) -> dict[str, Tensor]:
    """Hidden states and head of a trained model's scale; log-probs of a policy a little older."""
    g = torch.Generator().manual_seed(0)
    dtype = getattr(torch, a.dtype)
    made = {
        "hidden": torch.randn(a.tokens, a.dim, generator=g),
        "weight": torch.randn(a.vocab, a.dim, generator=g) * a.dim**-0.5,
        "targets": torch.randint(a.vocab, (a.tokens,), generator=g),
        "mask": torch.rand(a.tokens, generator=g) >= a.masked,
        "advantages": torch.randn(SEQUENCES, generator=g).repeat_interleave(a.tokens // SEQUENCES),
    }
    on_device = {name: t.to(a.device, dtype if name in ("hidden", "weight") else None) for name, t in made.items()}
    now = token_logprobs(on_device["hidden"], on_device["weight"], on_device["targets"])
    on_device["behaviour"] = now + 0.1 * torch.randn(a.tokens, generator=g).to(a.device)
    return on_device


def dense(x: dict[str, Tensor]) -> Tensor:
    """The clipped token-mean loss as one would write it."""
    logits = (x["hidden"] @ x["weight"].t()).float()
    logp = torch.log_softmax(logits, -1).gather(1, x["targets"][:, None]).squeeze(1)
    ratio = (logp - x["behaviour"]).exp()
    clipped = ratio.clamp(1 - CLIP.low, 1 + CLIP.high)
    term = -torch.minimum(ratio * x["advantages"], clipped * x["advantages"])
    return (term * x["mask"]).sum() / x["mask"].sum()


def lean(x: dict[str, Tensor], backend: Any) -> Tensor:
    """The same by the operation of this project."""
    return policy_loss(
        x["hidden"],
        x["weight"],
        x["targets"],
        x["mask"],
        advantages=x["advantages"],
        behaviour_logprobs=x["behaviour"],
        num_trainable_tokens=int(x["mask"].sum()),
        surrogate=CLIP,
        correction=Correction(name="none"),
        backend=backend,
    ).loss


def liger(x: dict[str, Tensor]) -> Tensor:
    """The same by Liger-Kernel, which wants padded sequences and takes them one by one."""
    from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOLoss  # pyright: ignore[reportMissingImports]

    loss = LigerFusedLinearGRPOLoss(
        beta=0.0, compiled=False, use_ref_model=False, loss_type="bnpo", epsilon_low=CLIP.low, epsilon_high=CLIP.high
    )
    names = ("hidden", "targets", "mask", "behaviour", "advantages")
    hidden, targets, mask, behaviour, advantages = (x[n].reshape(SEQUENCES, -1, *x[n].shape[1:]) for n in names)
    return loss(hidden, x["weight"], targets, mask.long(), advantages[:, 0], old_per_token_logps=behaviour)[0]


def floor(x: dict[str, Tensor]) -> Tensor:
    """The three products alone, in chunks of rows as ours makes them."""
    rows, weight = x["hidden"][x["mask"]], x["weight"]
    dweight = torch.zeros(weight.shape, dtype=rows.dtype, device=rows.device)
    for part in rows.split(341):
        logits = part @ weight.t()
        _ = logits @ weight
        dweight.addmm_(logits.t(), part)
    return dweight


def call(path: str) -> Callable[[dict[str, Tensor]], Tensor]:
    """One forward and backward pass of a path; returns the loss, detached."""
    forward: Callable[[dict[str, Tensor]], Tensor]
    if path == "floor":
        return torch.no_grad()(floor)
    others = {"naive": lambda: dense, "compile": lambda: torch.compile(dense), "liger": lambda: liger}
    forward = others[path]() if path in others else lambda x: lean(x, path)

    def run(x: dict[str, Tensor]) -> Tensor:
        leaves = {name: x[name].detach().requires_grad_() for name in ("hidden", "weight")}
        loss = forward({**x, **leaves})
        loss.backward()
        return loss.detach()

    return run


def peak_bytes(device: str) -> int:
    """Peak since reset_peak."""
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def reset_peak(device: str) -> None:
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def synchronised(device: str) -> float:
    """The time once everything that was launched is done."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def measure(a: argparse.Namespace) -> dict[str, Any]:
    """Figures of one path and type, in this process."""
    x, run = inputs(a), call(a.only)
    reset_peak(a.device)
    held = peak_bytes(a.device)
    began = synchronised(a.device)
    loss = run(x)
    first = synchronised(a.device) - began
    extra = peak_bytes(a.device) - held
    seconds = []
    for _ in range(a.repeats):
        began = synchronised(a.device)
        run(x)
        seconds.append(synchronised(a.device) - began)
    loss_value = float(loss) if loss.ndim == 0 else None
    return {"seconds": seconds, "first_seconds": first, "extra_mib": extra / 2**20, "loss": loss_value}


def rows(a: argparse.Namespace) -> list[dict[str, Any]]:
    """Every path and type, each round in processes of their own."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    keys = [(path, dtype) for dtype in a.dtypes for path in ("floor", *a.paths)]
    for _ in range(ROUNDS):
        for path, dtype in keys:
            words = [
                w
                for k in ("tokens", "dim", "vocab", "masked", "repeats", "device")
                for w in (f"--{k}", f"{getattr(a, k)}")
            ]
            child = [sys.executable, __file__, *words, "--only", path, "--dtype", dtype]
            done = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=False, timeout=900)
            if done.returncode:
                found.setdefault((path, dtype), []).append({"fault": f"exit {done.returncode}"})
            else:
                found.setdefault((path, dtype), []).append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{path} {dtype}: {done.stdout.splitlines()[-1:]}", file=sys.stderr, flush=True)
    return [summary(path, dtype, each) for (path, dtype), each in found.items()]


def summary(path: str, dtype: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    faults = [r["fault"] for r in rounds if "fault" in r]
    if faults:
        return {"path": path, "dtype": dtype, "fault": faults[0]}
    return {
        "path": path,
        "dtype": dtype,
        "seconds": statistics.median(s for r in rounds for s in r["seconds"]),
        "first_seconds": min(r["first_seconds"] for r in rounds),
        "extra_mib": round(statistics.median(r["extra_mib"] for r in rounds), 1),
        "loss": rounds[0]["loss"],
    }


def ratios(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """ "path dtype" -> seconds and extra memory over those of naive of the same type."""
    base = {r["dtype"]: r for r in found if r["path"] == "naive" and "fault" not in r}
    usable = [r for r in found if "fault" not in r and r["path"] not in ("naive", "floor") and r["dtype"] in base]
    return {
        f"{r['path']} {r['dtype']}": {
            "seconds": r["seconds"] / base[r["dtype"]]["seconds"],
            "extra_mib": r["extra_mib"] / base[r["dtype"]]["extra_mib"],
        }
        for r in usable
    }


def usual_dtypes(device: str) -> list[str]:
    """float32, and bfloat16 where it is not emulated."""
    flags = Path("/proc/cpuinfo").read_text().split()
    is_fast = device != "cpu" or "avx512_bf16" in flags or "amx_bf16" in flags
    return ["float32", "bfloat16"] if is_fast else ["float32"]


def usual_paths() -> list[str]:
    there = [path for path in OTHERS if path != "liger" or find_spec("liger_kernel")]
    return [*there, "native", "torch"]


def in_words(row: dict[str, Any]) -> str:
    figures = row.get("fault") or f"{row['seconds']:8.3f} s {row['extra_mib']:9.1f} MiB"
    return f"{row['path']:8} {row['dtype']:9} {figures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    for name, value in (("tokens", 2048), ("dim", 576), ("vocab", 49152), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--masked", type=float, default=0.4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+")
    parser.add_argument("--paths", nargs="+", choices=OTHERS + OURS)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(arguments)))
        return
    if arguments.tokens % SEQUENCES:
        parser.error(f"--tokens {arguments.tokens} cannot be cut into {SEQUENCES} sequences: take a multiple")
    arguments.dtypes = arguments.dtypes or usual_dtypes(arguments.device)
    arguments.paths = arguments.paths or usual_paths()
    found = rows(arguments)
    body = {"rows": found, "ratio_to_naive": ratios(found)}
    lines = [in_words(row) for row in found]
    emit(record("policy_loss", vars(arguments), body), as_json=arguments.json, lines=lines)


if __name__ == "__main__":
    main()
