"""What each isolation layer is for, and which of them a mode insists on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agentmath.core.errors import SandboxError

Mode = Literal["strict", "best", "trusted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One row of the sandbox's report."""

    name: str
    in_force: bool
    why_not: str
    """Empty when in force."""
    leaves_open: str
    """What a snippet can do without it."""


LEAVES_OPEN = {
    "no_new_privs": "setuid programs could give privileges back",
    "rlimits": "memory, CPU time, file sizes and threads are unbounded",
    "cgroup": "what all snippets together take of memory and process numbers, up to all that the machine has",
    "seccomp": "processes, sockets and every system call of the kernel",
    "landlock": "every file this user may read or write, where file permissions and read-only mounts do not stop it",
    "uid_drop": "files and processes that belong to this uid",
    "user_namespace": "capabilities of root if this process has them; the namespaces below need it",
    "pid_namespace": "other processes' numbers can be told; seccomp alone keeps them from being signalled",
    "net_namespace": "the network is closed by seccomp alone",
    "ipc_namespace": "shared memory of other programs is closed by seccomp alone",
    "uts_namespace": "the host's name can be read",
    "mount_namespace": "the disk under the temporary folder can be filled; only Landlock stops writing elsewhere",
}
"""By layer, in the order of the report."""

SWITCHED_OFF_WHEN_TRUSTED = frozenset(LEAVES_OPEN) - {"no_new_privs", "rlimits", "cgroup"}

_STRICT = ("no_new_privs", "rlimits", "seccomp", "landlock")


def report(rows: Iterable[tuple[str, bool, str]]) -> tuple[Layer, ...]:
    """Rows (layer, in force, why not) of a sandbox process as a table in fixed order."""
    found = {name: (in_force, why_not) for name, in_force, why_not in rows}
    return tuple(
        Layer(name=name, in_force=found[name][0], why_not=found[name][1], leaves_open=text)
        for name, text in LEAVES_OPEN.items()
    )


def check(mode: Mode, layers: Iterable[Layer], *, is_root: bool | None = None) -> None:
    """Raise SandboxError when `strict` asks for a layer that is not in force; other modes only report.

    is_root: whether the trainer runs as uid 0 (default: as it does); then root must be given up, by uid or by a user
    namespace.
    """
    if mode != "strict":
        return
    missing = {layer.name: layer for layer in layers if not layer.in_force}
    wanted = [name for name in _STRICT if name in missing]
    is_root = os.geteuid() == 0 if is_root is None else is_root
    if is_root and "uid_drop" in missing and "user_namespace" in missing:
        wanted += ["uid_drop", "user_namespace"]
    if not wanted:
        return
    details = "; ".join(f"{name} ({missing[name].why_not}) leaves open: {missing[name].leaves_open}" for name in wanted)
    raise SandboxError(
        f"sandbox.mode = strict needs isolation layers that this machine does not give: {details}. "
        "Allow them, or set sandbox.mode = best to go on without."
    )
