"""Compiled core of agentmath. Each room is a submodule; here a class, since one stub file cannot hold modules."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

class sandbox:
    """What runs between fork and model code. Linux only; functions raise RuntimeError with the system's reason."""

    class Policy:
        """Which syscalls model code may make."""

        def __init__(self, *, allow_metadata: bool) -> None: ...

    @staticmethod
    def probe_layers(scratch_base: str, wants_user_namespace: bool) -> list[tuple[str, bool, str]]:
        """Rows (layer, available, why not); each layer is tried in a throw-away child."""

    @staticmethod
    def probe_uid_drop(id: int, needed: Sequence[str]) -> tuple[str, bool, str]:
        """Row for giving up root: can uid `id` read the paths in `needed`?"""

    @staticmethod
    def drop_to(id: int) -> None:
        """Give up root for uid and gid `id`."""

    @staticmethod
    def enter_namespaces(*, user: bool, net: bool, ipc: bool, uts: bool, mount: bool) -> None:
        """Move this single-threaded process into new namespaces."""

    @staticmethod
    def close_mounts(scratch_base: str) -> None:
        """Make all mounts read-only, hide /proc, put a tmpfs at scratch_base."""

    @staticmethod
    def mount_scratch(path: str, max_bytes: int, max_files: int) -> None:
        """Make a folder with a size-limited tmpfs on it."""

    @staticmethod
    def unmount_scratch(path: str) -> None:
        """Undo mount_scratch, contents included."""

    @staticmethod
    def landlock_version() -> int:
        """The kernel's Landlock version, 0 without it."""

    @staticmethod
    def make_landlock_ruleset(readable: Sequence[str], devices: Sequence[str], writable: Sequence[str]) -> int:
        """Descriptor of a ruleset; the caller closes it."""

    @staticmethod
    def parse_statm(text: bytes) -> tuple[int, int]:
        """(address space bytes, data bytes) from /proc/PID/statm."""

    @staticmethod
    def harden(
        *,
        parent: int,
        first_closed_fd: int,
        landlock_ruleset: int,
        policy: Policy | None,
        address_space_bytes: int,
        data_bytes: int,
        file_bytes: int,
        stack_bytes: int,
        open_files: int,
        processes: int,
    ) -> None:
        """All that a child does to itself before model code; raises at the first failing step."""

    @staticmethod
    def hide_memory() -> None:
        """Make this process's memory unreadable to others of its uid."""

    @staticmethod
    def encode_report(outcome: int, sequence: int, exit_code: int, value: bytes | None, error: bytes) -> bytes:
        """Frame of a child's report."""

    @staticmethod
    def parse_report(buffer: bytes) -> tuple[int, int, int, int, bytes | None, bytes] | None:
        """(bytes used, outcome, sequence, exit code, value, error) or None; ValueError when malformed."""

class decode:
    """Operators between the matrix products of one decoding step: float32, C order, results written in place."""

    @staticmethod
    def supports_width(width: int) -> bool: ...
    @staticmethod
    def supports_head_size(head_size: int) -> bool: ...
    @staticmethod
    def rms_norm(x: Floats, weight: Floats, eps: float, out: Floats) -> None: ...
    @staticmethod
    def norm_and_rotate(heads: Floats, weight: Floats | None, eps: float, cos: Floats, sin: Floats) -> None: ...
    @staticmethod
    def swiglu(gate: Floats, up: Floats) -> None: ...
    @staticmethod
    def attend_one_token(
        query: Floats,
        keys: Floats,
        values: Floats,
        contexts: npt.NDArray[np.int64],
        scale: float,
        threads: int,
        out: Floats,
    ) -> None: ...
