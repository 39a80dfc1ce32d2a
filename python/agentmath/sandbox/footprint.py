"""Private memory of the processes that the sandbox keeps ready, read from outside through /proc."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

_PROC = Path("/proc")


async def vanishing_mib(act: Callable[[], Awaitable[object]], settle: Callable[[], Awaitable[object]]) -> float | None:
    """MiB of private dirty memory that the processes which end through `act` had before it.

    Which processes belong to the sandbox, and what each of them is for, is its own business; one that was used up is
    known by its end. None where the kernel does not let this user read it, or where nothing ended.
    """
    await settle()
    before = {pid: private_dirty_mib(pid) for pid in descendants(os.getpid())}
    await act()
    await settle()
    return total_of_ended(before, descendants(os.getpid()))


def total_of_ended(before: Mapping[int, float | None], alive: set[int]) -> float | None:
    """Sum over the processes that are not alive any more; None when one of them is unknown or there is none."""
    ended = [size for pid, size in before.items() if pid not in alive]
    known = [size for size in ended if size is not None]
    return sum(known) if known and len(known) == len(ended) else None


def median_known(sizes: list[float | None]) -> float | None:
    """Median of those that could be read; None when none could."""
    known = [size for size in sizes if size is not None]
    return statistics.median(known) if known else None


def children_by_parent(*, with_zombies: bool = False) -> dict[int, list[int]]:
    """Pids of the children of every process on this machine."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if len(fields) > 1 and (with_zombies or fields[0] != "Z"):
            children[int(fields[1])].append(int(entry.name))
    return children


def descendants(pid: int, *, with_zombies: bool = False) -> set[int]:
    """Pids of the living children of pid, of their children, and so on."""
    children = children_by_parent(with_zombies=with_zombies)
    found: set[int] = set()
    frontier = [pid]
    while frontier:
        new = [child for parent in frontier for child in children[parent] if child not in found]
        found.update(new)
        frontier = new
    return found


def private_dirty_mib(pid: int) -> float | None:
    """Memory that ends with the process; None where it cannot be read."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) / 1024
    except (OSError, StopIteration, ValueError):
        return None
