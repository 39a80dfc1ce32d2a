"""agentmath doctor: what this machine has, and what each missing thing costs."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from agentmath.cli.isolation import examine_sandbox
from agentmath.core.errors import SandboxError
from agentmath.core.types import ToolStatus

_OLDEST_PYTHON = (3, 11)
_LITTLE_DISK_BYTES = 4 << 30
_LITTLE_MEMORY_BYTES = 3 << 30
_PACKAGES = {
    "transformers": ("transformers", "no model can be made or loaded", True),
    "pyarrow": ("pyarrow", "trajectories cannot be written or read", True),
    "gguf": ("gguf", "models in .gguf files cannot be loaded", False),
    "math-verify": ("math_verify", "answers that are formulas get no verdict", False),
    "reasoning-gym": ("reasoning_gym", "its problem generators are not available", False),
    "tensorboard": ("tensorboard", "no TensorBoard files; metrics.jsonl is written all the same", False),
    "triton": ("triton", "GPU kernels fall back to plain torch", False),
    "flash-attn": ("flash_attn", "attention on GPUs uses torch's own kernels", False),
    "vllm": ("vllm", "no vLLM engines, unless engine.python names an environment with one (make vllm)", False),
    "ray": ("ray", "runs stay on one machine", False),
}
"""Distribution name: (module, what its absence costs, whether nothing works without it)."""
_CPU_FEATURES = {
    "avx2": ("avx2", "vectorised arithmetic is several times slower"),
    "avx512": ("avx512f", "float32 arithmetic runs at AVX2 speed"),
    "amx": ("amx_tile", "bfloat16 brings no speed on this CPU; keep model.dtype at float32"),
}
"""Name: (flag of /proc/cpuinfo, what its absence costs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked for."""

    area: str
    """machine, python, compilers, sandbox or packages."""
    name: str
    value: str
    """What was found, in words; empty when absent."""
    is_present: bool = True
    is_needed: bool = False
    """True when nothing works without it."""
    cost: str = ""
    """What its absence costs."""


def examine() -> list[Finding]:
    """Look at this machine. Nothing is changed, nothing is fetched; takes seconds, as torch is imported."""
    found = [*_machine(), *_torch(), *_python(), *_compilers(), *_sandbox(), *_packages()]
    order = list(dict.fromkeys(f.area for f in found))
    return sorted(found, key=lambda f: order.index(f.area))


def print_findings(findings: list[Finding], *, as_json: bool) -> None:
    """Print a table, or JSON with one object per finding."""
    if as_json:
        print(json.dumps([dataclasses.asdict(f) for f in findings], indent=2))
        return
    width = max(len(f.name) for f in findings)
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            print(area)
        mark = "ok" if finding.is_present else "MISSING" if finding.is_needed else "-"
        said = " - ".join(part for part in (finding.value, "" if finding.is_present else finding.cost) if part)
        print(f"  {mark:7}  {finding.name:{width}}  {said}".rstrip())
    missing = [f.name for f in findings if f.is_needed and not f.is_present]
    print(f"needed and missing: {', '.join(missing)}" if missing else "nothing that is needed is missing")


def _machine() -> Iterator[Finding]:
    area = "machine"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    is_linux = sys.platform == "linux"
    yield Finding(
        area=area, name="system", value=system, is_present=is_linux, is_needed=True, cost="only Linux is supported"
    )
    cores = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
    model, flags = _cpu_info()
    yield Finding(area=area, name="cpu", value=f"{cores} usable cores, {model}")
    for name, (flag, cost) in _CPU_FEATURES.items():
        if platform.machine() in ("x86_64", "AMD64"):
            yield Finding(
                area=area, name=name, value="yes" if flag in flags else "", is_present=flag in flags, cost=cost
            )
    memory = available_memory_bytes()
    if memory is not None:
        enough = memory >= _LITTLE_MEMORY_BYTES
        cost = "less than 3 GiB: the quickstart may be ended by the kernel"
        yield Finding(area=area, name="memory", value=f"{_gib(memory)} available", is_present=enough, cost=cost)
    free = shutil.disk_usage(Path.cwd()).free
    cost = "less than 4 GiB: checkpoints of larger models will not fit"
    value = f"{_gib(free)} free in {Path.cwd()}"
    yield Finding(area=area, name="disk", value=value, is_present=free >= _LITTLE_DISK_BYTES, cost=cost)


def _python() -> Iterator[Finding]:
    new_enough = sys.version_info >= _OLDEST_PYTHON
    value = f"{platform.python_version()} at {sys.executable}"
    cost = "Python 3.11 or newer is required"
    yield Finding(area="python", name="python", value=value, is_present=new_enough, is_needed=True, cost=cost)
    core = importlib.util.find_spec("agentmath._C")
    cost = "the compiled part is not built: run `make build` or `pip install .`"
    yield Finding(
        area="python",
        name="compiled core",
        value=str(core.origin) if core else "",
        is_present=core is not None,
        is_needed=True,
        cost=cost,
    )


def _torch() -> Iterator[Finding]:
    area = "python"
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError) as error:
        yield Finding(
            area=area, name="torch", value="", is_present=False, is_needed=True, cost=f"nothing trains ({error})"
        )
        return
    yield Finding(area=area, name="torch", value=f"{torch.__version__}, {torch.get_num_threads()} threads")
    from agentmath_kernels.row_operator import resolve

    kinds = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    chosen = {kind: resolve("auto", device=torch.device(kind), dtype=torch.float32) for kind in kinds}
    slow = [kind for kind, name in chosen.items() if name == "torch"]
    value = "" if slow else ", ".join(f"{name} on {kind}" for kind, name in chosen.items())
    cost = f"the loss on {', '.join(slow)} runs by plain torch operators: slower, and with a second chunk of memory"
    yield Finding(area=area, name="loss backend", value=value, is_present=not slow, cost=cost)
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    value = ", ".join(f"{d.name} ({_gib(d.total_memory)})" for d in devices)
    cost = "models beyond a few hundred million parameters are too slow on this machine"
    yield Finding(area="machine", name="gpu", value=value, is_present=bool(devices), cost=cost)


def _compilers() -> Iterator[Finding]:
    cost = "the compiled part cannot be rebuilt here"
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))), None)
    header = Path(sysconfig.get_path("include")) / "Python.h"
    for name, found in (
        ("c++ compiler", compiler),
        ("cmake", shutil.which("cmake", path=_tool_path())),
        ("ninja", shutil.which("ninja", path=_tool_path())),
    ):
        value = f"{_first_line([found, '--version'])} at {found}" if found else ""
        yield Finding(area="compilers", name=name, value=value, is_present=bool(found), cost=cost)
    is_there = header.is_file()
    yield Finding(
        area="compilers", name="Python.h", value=str(header) if is_there else "", is_present=is_there, cost=cost
    )


def _sandbox() -> Iterator[Finding]:
    area = "sandbox"
    try:
        layers, status = examine_sandbox()
    except (SandboxError, ImportError) as error:
        cost = f"no program of a model can be run ({error})"
        yield Finding(area=area, name="execution", value="", is_present=False, is_needed=True, cost=cost)
        return
    works = status is ToolStatus.OK
    value = f"a program ran: {status}" if works else ""
    cost = f"no program of a model can be run (a trial ended with {status})"
    yield Finding(area=area, name="execution", value=value, is_present=works, is_needed=True, cost=cost)
    for layer in layers:
        cost = f"leaves open: {layer.leaves_open}" + (f" ({layer.why_not})" if layer.why_not else "")
        value = "in force" if layer.in_force else ""
        yield Finding(area=area, name=layer.name, value=value, is_present=layer.in_force, cost=cost)


def _packages() -> Iterator[Finding]:
    for name, (module, cost, is_needed) in _PACKAGES.items():
        is_there = importlib.util.find_spec(module) is not None
        version = _version(name) if is_there else ""
        yield Finding(area="packages", name=name, value=version, is_present=is_there, is_needed=is_needed, cost=cost)


def available_memory_bytes() -> int | None:
    """Memory that can still be used, the control group's limit respected; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / f"memory.{part}").read_text().strip() for part in ("max", "current"))
        return free if limit == "max" else min(free, max(int(limit) - int(used), 0))
    except (OSError, ValueError):
        return free


def _cpu_info() -> tuple[str, frozenset[str]]:
    """Model name and feature flags; empty where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown", frozenset()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return fields.get("model name", platform.machine()), frozenset(fields.get("flags", "").split())


def _tool_path() -> str:
    """PATH with this environment's own programs first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    return (done.stdout or done.stderr).partition("\n")[0].strip()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "found"


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
