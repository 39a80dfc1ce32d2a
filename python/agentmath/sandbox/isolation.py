"""The zygote's side of isolation: the layers this machine allows, entering them, folders for children to write in.

Every layer is tried in a throw-away child first. A layer that was found and then fails to engage is an error, never a
reason to go on without it.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

SLOT_UID = 65534
SCRATCH_PREFIX = "agentmath-sandbox-"
_SCRATCH_PLACES = ("/mnt", "/srv", "/media", "/opt", "/home")
_TEMPORARY_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
_DEVICES = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
_MAX_FILES = 1024
_MIN_SCRATCH_BYTES = 1 << 16

Row = tuple[str, bool, str]


class Isolation:
    """What is in force in every child."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        """(layer, in force, why not)."""
        self.scratch_base = ""
        """Folder that holds the children's scratch folders."""

    def has(self, layer: str) -> bool:
        return any(name == layer and in_force for name, in_force, _ in self.rows)

    @property
    def counts_processes_apart(self) -> bool:
        """True where the kernel's count of this uid's processes holds nobody else's."""
        return self.has("user_namespace") or self.has("uid_drop")


def enter(core: Any, *, without: frozenset[str], needed_paths: list[str]) -> Isolation:
    """Try all layers, enter those that belong to the zygote, and say what children will be under.

    core: the compiled sandbox module. needed_paths: what an unprivileged uid must be able to read. Raises RuntimeError
    when a layer that was available cannot be entered.
    """
    isolation = Isolation()
    uid_drop: Row = core.probe_uid_drop(SLOT_UID, needed_paths)
    isolation.rows.append(_switched(uid_drop, without))
    if isolation.has("uid_drop"):
        core.drop_to(SLOT_UID)
    place = _scratch_place(needed_paths)
    probed: list[Row] = core.probe_layers(place or "/", "user_namespace" not in without)
    if place is None:
        probed = [_without_place(row) if row[0] == "mount_namespace" else row for row in probed]
    isolation.rows.extend(_switched(row, without) for row in probed)
    _prefer_victim()
    core.enter_namespaces(
        user=isolation.has("user_namespace"),
        net=isolation.has("net_namespace"),
        ipc=isolation.has("ipc_namespace"),
        uts=isolation.has("uts_namespace"),
        mount=isolation.has("mount_namespace"),
    )
    if isolation.has("mount_namespace") and place is not None:
        core.close_mounts(place)
        isolation.scratch_base = place
    else:
        isolation.scratch_base = _temporary_folder()
    return isolation


def _switched(row: Row, without: frozenset[str]) -> Row:
    return (row[0], False, "switched off") if row[0] in without else row


def _without_place(row: Row) -> Row:
    return (row[0], False, "no empty place to mount scratch folders on: " + ", ".join(_SCRATCH_PLACES))


def _scratch_place(needed_paths: list[str]) -> str | None:
    """A folder that the scratch tmpfs may cover because nothing that is needed lies below it."""
    needed = [os.path.realpath(path) + "/" for path in needed_paths]
    for place in _SCRATCH_PLACES:
        if os.path.isdir(place) and not any(path.startswith(place + "/") for path in needed):
            return place
    return None


def _temporary_folder() -> str:
    """Made by hand: the tempfile module would remember its folder, and children inherit what it remembers."""
    for place in _TEMPORARY_PLACES:
        path = f"{place}/{SCRATCH_PREFIX}{os.urandom(8).hex()}"
        try:
            os.mkdir(path, 0o700)
        except OSError:
            continue
        return path
    raise RuntimeError(f"no folder for scratch files can be made in {', '.join(_TEMPORARY_PLACES)}")


def _prefer_victim() -> None:
    """When memory runs out the kernel should take a snippet, not the trainer."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")
    except OSError:
        return


class Slot(NamedTuple):
    """A scratch folder and the Landlock ruleset that opens it."""

    path: str
    max_bytes: int
    ruleset: int
    """Descriptor, -1 without Landlock."""


class ScratchSlots:
    """Scratch folders, used by one child at a time and handed on only when empty."""

    def __init__(self, core: Any, isolation: Isolation, readable: list[str]) -> None:
        self._core = core
        self._has_mounts = isolation.has("mount_namespace")
        self._has_landlock = isolation.has("landlock")
        self._base = isolation.scratch_base
        self._readable = readable
        self._free: dict[int, list[Slot]] = {}
        self._next_number = 0

    def take(self, max_bytes: int) -> Slot:
        """An empty folder of at least max_bytes. Raises OSError or RuntimeError when none can be made."""
        max_bytes = max(max_bytes, _MIN_SCRATCH_BYTES)
        free = self._free.get(max_bytes)
        return free.pop() if free else self._make(max_bytes)

    def give_back(self, slot: Slot) -> None:
        """Take a folder back from a dead child."""
        if self._is_empty(slot):
            self._free.setdefault(slot.max_bytes, []).append(slot)
            return
        if slot.ruleset >= 0:
            os.close(slot.ruleset)
        self._remove(slot.path)

    def close(self) -> None:
        """Remove all folders; those still in use must have lost their child."""
        if not self._has_mounts:
            remove_tree(self._base)

    def _make(self, max_bytes: int) -> Slot:
        path = f"{self._base}/{self._next_number}"
        self._next_number += 1
        if self._has_mounts:
            self._core.mount_scratch(path, max_bytes, _MAX_FILES)
        else:
            os.mkdir(path, 0o700)
        ruleset = -1
        if self._has_landlock:
            ruleset = self._core.make_landlock_ruleset(self._readable, _DEVICES, [path])
        return Slot(path, max_bytes, ruleset)

    def _is_empty(self, slot: Slot) -> bool:
        if self._has_mounts:
            facts = os.statvfs(slot.path)
            return facts.f_files - facts.f_ffree == 1 and facts.f_bfree == facts.f_blocks
        return not os.listdir(slot.path)

    def _remove(self, path: str) -> None:
        if self._has_mounts:
            self._core.unmount_scratch(path)
        else:
            remove_tree(path)


def remove_tree(path: str) -> None:
    """Remove a folder however deep it is, following no link: folders are moved to one flat place and emptied there."""
    flat = path + ".removed"
    os.mkdir(flat, 0o700)
    os.rename(path, f"{flat}/0")
    waiting, number = [0], 1
    while waiting:
        folder = f"{flat}/{waiting.pop()}"
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)  # moving a folder writes to it
                os.rename(entry.path, f"{flat}/{number}")
                waiting.append(number)
                number += 1
            else:
                os.unlink(entry.path)
        os.rmdir(folder)
    os.rmdir(flat)
