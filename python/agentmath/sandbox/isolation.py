"""The zygote's side of isolation: which layers this machine allows, and entering them.

Every layer is tried in a throw-away child first. A layer that was found and then fails to engage is an error, never a
reason to go on without it.
"""

from __future__ import annotations

import os
from typing import Any

SLOT_UID = 65534
SCRATCH_PREFIX = "agentmath-sandbox-"
_SCRATCH_PLACES = ("/mnt", "/srv", "/media", "/opt", "/home")
_TEMPORARY_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
_SWITCHED_OFF = "switched off"

Row = tuple[str, bool, str]


class Isolation:
    """What is in force in every child."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        """(layer, in force, why not)."""
        self.scratch_base = ""
        """Folder that holds the children's scratch folders."""
        self.cgroup: Any = None
        """core.Cgroup that this process is in, if any."""

    def has(self, layer: str) -> bool:
        return any(name == layer and in_force for name, in_force, _ in self.rows)


def enter(core: Any, *, without: frozenset[str], needed_paths: list[str], trainer_pid: int) -> Isolation:
    """Try all layers, enter those that belong to the zygote, and say what children will be under.

    core: the compiled sandbox module. needed_paths: what an unprivileged uid must be able to read. trainer_pid: whom
    the control group is named after. Raises RuntimeError when a layer that was available cannot be entered.
    """
    isolation = Isolation()
    if "cgroup" not in without:
        isolation.cgroup, why_not = _enter_cgroup(core, trainer_pid)
        isolation.rows.append(("cgroup", not why_not, why_not))
    else:
        isolation.rows.append(("cgroup", False, _SWITCHED_OFF))
    uid_drop: Row = core.probe_uid_drop(SLOT_UID, needed_paths)
    isolation.rows.append(_switched(uid_drop, without))
    if isolation.has("uid_drop"):
        core.drop_to(SLOT_UID)
    place = _scratch_place(needed_paths)
    probed: list[Row] = core.probe_layers(place or "/", "user_namespace" not in without)
    if place is None:
        probed = [_without_place(row) if row[0] == "mount_namespace" else row for row in probed]
    isolation.rows.extend(_switched(row, without) for row in probed)
    core.enter_namespaces({name for name, in_force, _ in isolation.rows if in_force})
    if isolation.has("mount_namespace") and place is not None:
        core.close_mounts(place)
        isolation.scratch_base = place
    else:
        isolation.scratch_base = _temporary_folder()
    return isolation


def _enter_cgroup(core: Any, trainer_pid: int) -> tuple[Any, str]:
    """The group, or why there is none. As long as there still is the privilege to make one."""
    try:
        return core.enter_cgroup(trainer_pid), ""
    except RuntimeError as error:
        return None, str(error)


def _switched(row: Row, without: frozenset[str]) -> Row:
    return (row[0], False, _SWITCHED_OFF) if row[0] in without else row


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
