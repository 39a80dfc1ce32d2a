"""Carries out all attacks in one set-up, in a process of its own, and prints what was wrong as JSON.

    python one_setup.py [--user UID] [--reachable [--docker]] [--without LAYER] [--match TEXT]

It is a process of its own because it may give up root, and because the count of what is left is exact there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

_NEW_MOUNTS = 0x00020000
_PRIVATE = 0x4000 | 1 << 18  # MS_REC | MS_PRIVATE
_BIND = 4096 | 0x4000  # MS_BIND | MS_REC
_DETACH = 2
_AT_ONCE = 12


def make_reachable() -> None:
    """In a mount namespace of our own, let every user get to the interpreter and its libraries, as in an ordinary
    installation: a closed folder above them is covered by an open one that holds them alone."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, flags: int, kind: str | None = None, data: str | None = None) -> None:
        words = [None if word is None else word.encode() for word in (source, target, kind, data)]
        if libc.mount(words[0], words[1], words[2], flags, words[3]) != 0:
            raise OSError(ctypes.get_errno(), f"mount {source} on {target}")

    if libc.unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "a mount namespace")
    mount("none", "/", _PRIVATE)
    needed = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix, *sys.path) if path and os.path.isdir(path)}
    for folder in sorted({folder for path in needed if (folder := _closed_folder(path)) is not None}):
        kept = sorted(path for path in needed if folder in path.parents)
        kept = [path for path in kept if not any(other in path.parents for other in kept)]
        stash = tempfile.mkdtemp()
        for number, path in enumerate(kept):
            os.mkdir(f"{stash}/{number}")
            mount(str(path), f"{stash}/{number}", _BIND)
        mount("tmpfs", str(folder), 0, "tmpfs", "mode=0755")
        for number, path in enumerate(kept):
            path.mkdir(parents=True)
            mount(f"{stash}/{number}", str(path), _BIND)
            libc.umount2(f"{stash}/{number}".encode(), _DETACH)
            os.rmdir(f"{stash}/{number}")
        os.rmdir(stash)


def _closed_folder(path: Path) -> Path | None:
    """The topmost folder above path that others may not enter."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.environ["HOME"] = "/"


async def attack_all(without: list[str], match: str) -> dict[str, Any]:
    from attack import S, may_run, try_attack
    from attack_list import ATTACKS
    from canaries import Canaries

    from agentmath.config.sandbox import SandboxSection
    from agentmath.sandbox.footprint import children_by_parent
    from agentmath.sandbox.local import open_sandbox

    with Canaries() as canaries:
        sandbox = await open_sandbox(SandboxSection(num_workers=_AT_ONCE), without=without)
        in_force = frozenset(layer.name for layer in sandbox.report() if layer.in_force)
        keepers = set(children_by_parent()[os.getpid()])
        shot = await sandbox.execute(canaries.fill_in("import os\nos.kill(@VICTIM@, 15)"))
        is_walled_off = shot.status is S.EXCEPTION and canaries.touched() == []
        failures: dict[str, list[str]] = {}
        chosen = [attack for attack in ATTACKS if match in attack.id]
        runnable = [attack for attack in chosen if may_run(attack, in_force, is_walled_off=is_walled_off)]
        places = asyncio.Semaphore(_AT_ONCE)

        async def run(attack: Any) -> None:
            async with places:
                if found := await try_attack(attack, sandbox, canaries, is_in_a_hurry=True):
                    failures[attack.id] = found

        await asyncio.gather(*(run(attack) for attack in runnable if not attack.alone))
        for attack in (attack for attack in runnable if attack.alone):
            await run(attack)
        together = await asyncio.gather(*(count_threads(sandbox) for _ in range(3)))
        alone = await count_threads(sandbox)
        lost = keepers - set(children_by_parent()[os.getpid()])
        await sandbox.close()
        return {
            "in_force": sorted(in_force),
            "num_tried": len(runnable),
            "left_out": [attack.id for attack in chosen if attack not in runnable],
            "failures": failures,
            "threads": {"alone": alone, "together": together},
            "touched": canaries.touched(),
            "keepers_lost": sorted(lost),
        }


async def count_threads(sandbox: Any) -> int:
    """How many threads a snippet can have for a second, up to 300."""
    from agentmath.core.types import Limits

    limits = Limits(cpu_seconds=30, wall_seconds=60, memory_bytes=32 << 30)
    code = (
        "import threading, time\nthreading.stack_size(65536)\nn = 0\n"
        "try:\n    for _ in range(300):\n"
        "        threading.Thread(target=time.sleep, args=(1.5,), daemon=True).start()\n"
        "        n += 1\nexcept RuntimeError: pass\ntime.sleep(1)\nn"
    )
    return int(str((await sandbox.execute(code, limits=limits)).value))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--user", type=int)
    parser.add_argument("--reachable", action="store_true")
    parser.add_argument("--docker", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    with contextlib.suppress(OSError):
        signal.alarm(150)
    os.chdir("/")
    if options.reachable:
        make_reachable()
    if options.docker:
        from container import enter_container

        enter_container()
    if options.user is not None:
        become(options.user)
    from census import Census, adopt_orphans

    from agentmath.sandbox.footprint import descendants

    adopt_orphans()
    before = Census.take()
    outcome = asyncio.run(attack_all(options.without, options.match))
    leftovers = before.leftovers()
    for pid in descendants(os.getpid()) - before.processes:
        os.kill(pid, signal.SIGKILL)
    print(json.dumps(outcome | {"leftovers": leftovers}))


if __name__ == "__main__":
    main()
