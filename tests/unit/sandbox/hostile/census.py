"""Counts what a sandbox could leave behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from agentmath.sandbox.footprint import children_by_parent, descendants

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 15.0
_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
_MOUNT_PLACES = ("/mnt", "/srv", "/media", "/opt", "/home", "/proc/", "/dev/shm/")
_CGROUPS = Path("/sys/fs/cgroup")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent dies, so that setsid and double forks hide nobody."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("cannot become a subreaper")


def reap_orphans(known: set[int]) -> None:
    """Take notice of adopted processes that have ended; never of children in known."""
    for pid in children_by_parent(with_zombies=True)[os.getpid()]:
        if pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


@dataclass(frozen=True)
class Census:
    """What is there at one moment."""

    processes: frozenset[int]
    """Below this process."""
    num_descriptors: int
    num_threads: int
    files: frozenset[str]
    """Folders of sandboxes in temporary places."""
    mounts: frozenset[str]
    """Those on places that a sandbox uses for scratch folders: other programs mount things too."""
    cgroups: frozenset[str]

    @classmethod
    def take(cls) -> Census:
        return cls(
            processes=frozenset(descendants(os.getpid(), with_zombies=True)),
            num_descriptors=len(os.listdir("/proc/self/fd")),
            num_threads=len(os.listdir("/proc/self/task")),
            files=frozenset(str(path) for place in _PLACES for path in Path(place).glob("*agentmath-sandbox*")),
            mounts=_mounts(),
            cgroups=_cgroup_folders(),
        )

    @classmethod
    def take_when_settled(cls) -> Census:
        """Counted when two counts in a row agree: another sandbox that stands open may still be forking."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        last = cls.take()
        while True:
            time.sleep(0.1)
            now = cls.take()
            if (now.processes, now.num_descriptors) == (last.processes, last.num_descriptors):
                return now
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes still come and go: {sorted(now.processes ^ last.processes)}")
            last = now

    def leftovers(self) -> dict[str, object]:
        """What is there now and was not then, after a wait for what is only slow to go."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while found := self._difference():
            if time.monotonic() > deadline:
                return found
            time.sleep(0.05)
            reap_orphans(set(self.processes))
        return {}

    def _difference(self) -> dict[str, object]:
        now = Census.take()
        found: dict[str, object] = {
            "processes": [describe(pid) for pid in now.processes - self.processes - self._of_others()],
            "files": [path for path in now.files - self.files if not _belongs_to_a_living_sandbox(path)],
            "cgroups": [path for path in now.cgroups - self.cgroups if not _belongs_to_another(path)],
            "mounts": sorted(now.mounts - self.mounts),
            "descriptors": max(0, now.num_descriptors - self.num_descriptors),
            "threads": max(0, now.num_threads - self.num_threads),
        }
        return {name: what for name, what in found.items() if what}

    def _of_others(self) -> set[int]:
        """What children of ours that were there before have made since. Another sandbox may stand open meanwhile, whose
        zygote forks when it likes; what it leaves is found by whoever closes it. Orphans come to us, not to them."""
        own = children_by_parent()[os.getpid()]
        return {below for pid in own if pid in self.processes for below in descendants(pid)}


def _mounts() -> frozenset[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return frozenset(line for line in lines if line.split()[4].startswith(_MOUNT_PLACES) or "agentmath" in line)


def _cgroup_folders() -> frozenset[str]:
    """Folders of control groups, v1 and v2, that bear our name: other programs come and go."""
    return frozenset(path for path, _, _ in os.walk(_CGROUPS) if "agentmath" in path)


def describe(pid: int) -> str:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return f"{pid} {state} {command[:200]}"
    return str(pid)


def _belongs_to_a_living_sandbox(path: str) -> bool:
    """Another test run's sandbox may be at work on this machine: then somebody stands in its folders."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/cwd").startswith(path + "/"):
                    return True
    return False


def _belongs_to_another(path: str) -> bool:
    """Control groups are named after the trainer: another one may be at work on this machine."""
    found = re.search(r"agentmath-sandbox-(\d+)-", path)
    return found is not None and int(found[1]) != os.getpid() and os.path.exists(f"/proc/{found[1]}")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 when it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
