"""Puts this process where Docker's default profile would put it, and says what a sandbox is there.

    python container.py [--user UID] [--drop-all] [--without-landlock]

The profile (moby's profiles/seccomp/default.json) refuses, to a container without CAP_SYS_ADMIN, new namespaces, mounts
and the kernel's administrative interfaces with EPERM, and clone3 with ENOSYS. Root keeps fourteen capabilities, control
groups are mounted read-only. Here what is refused is listed, not what is allowed, for x86-64.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

_REFUSED = {
    **{"unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "open_tree": 428},
    **{"move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442},
    **{"keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323},
    **{"kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176},
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "fanotify_init": 300, "quotactl": 179},
    **{"sethostname": 170, "setdomainname": 171, "syslog": 103, "acct": 163, "reboot": 169, "swapon": 167},
    **{"swapoff": 168, "iopl": 172, "ioperm": 173, "kcmp": 312, "pidfd_getfd": 438, "process_madvise": 440},
    **{"mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239, "migrate_pages": 256, "move_pages": 279},
}
_LANDLOCK = {"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446}
"""Allowed since Docker 20.10.22 or so; refused before."""
_CLONE, _CLONE3 = 56, 435
_NEW_NAMESPACES = 0x7E020000

_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
"""chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write
setfcap."""

_X86_64 = 0xC000003E
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_READ_ONLY_AGAIN = 32 | 4096 | 1  # MS_REMOUNT | MS_BIND | MS_RDONLY

_libc = ctypes.CDLL(None, use_errno=True)


def enter_container(*, capabilities: tuple[int, ...] = _KEPT_CAPABILITIES, has_landlock: bool = True) -> None:
    """Irreversible; needs root, and a mount namespace that is this process's own."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        folder = line.split()[4]
        if folder.startswith("/sys/fs/cgroup/") or folder == "/sys/fs/cgroup":
            _check(_libc.mount(None, folder.encode(), None, _READ_ONLY_AGAIN, None), f"remount {folder}")
    _install(_filter(_REFUSED if has_landlock else _REFUSED | _LANDLOCK))
    for number in range(64):
        if number not in capabilities:
            _libc.prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP; numbers that this kernel does not know are refused
    kept = [sum(1 << (n % 32) for n in capabilities if n // 32 == half) for half in (0, 1)]
    sets = struct.pack("<6I", kept[0], kept[0], 0, kept[1], kept[1], 0)
    _check(_libc.capset(struct.pack("<Ii", 0x20080522, 0), sets), "capset")


def _filter(refused: dict[str, int]) -> list[tuple[int, int, int, int]]:
    """Instructions (code, jump if true, jump if false, operand)."""
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _X86_64), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for number in refused.values():
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    program += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    program += [(_EQUAL, 0, 3, _CLONE), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _NEW_NAMESPACES)]
    return [*program, (_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _install(program: list[tuple[int, int, int, int]]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *instruction) for instruction in program))
    header = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code))
    _check(_libc.syscall(317, 1, 0, header), "seccomp")  # without no_new_privs, as root may


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


async def describe() -> dict[str, Any]:
    """The report in mode best, what snippets of all sorts came to, and what strict said."""
    from agentmath.config.sandbox import SandboxSection
    from agentmath.core.errors import SandboxError
    from agentmath.sandbox.local import open_sandbox

    secret = Path("/tmp") / f"agentmath-container-secret-{os.getpid()}"
    secret.write_text("answer")
    codes = {
        "prints": "print(6 * 7)",
        "computes": "import numpy\nint(numpy.arange(4).sum())",
        "writes": "open('f', 'w').write('x')\nimport tempfile\ntempfile.TemporaryFile().write(b'y')",
        "forks": "import os\nos.fork()",
        "connects": "import socket\nsocket.socket()",
        "peeks": f"open({str(secret)!r}).read()",
        "spills": f"open({str(secret)!r}, 'w')",
        "grows": "bytearray(1 << 40)",
        "spins": "while True: pass",
        "forbids": "import ctypes\nctypes.CDLL(None).syscall(246, 0, 0, 0, 0)",
    }
    strict = ""
    try:
        sandbox = await open_sandbox(SandboxSection(num_workers=2, cpu_seconds=0.5))
        results = {name: await sandbox.execute(code) for name, code in codes.items()}
        told = sandbox.report()
        await sandbox.close()
        try:
            await (await open_sandbox(SandboxSection(num_workers=1, mode="strict"))).close()
        except SandboxError as error:
            strict = str(error)
    finally:
        secret.unlink()
    return {
        "in_force": [layer.name for layer in told if layer.in_force],
        "why_not": {layer.name: layer.why_not for layer in told if not layer.in_force},
        "statuses": {name: result.status.value for name, result in results.items()},
        "layers": sorted({layer for result in results.values() for layer in result.layers}),
        "strict": strict,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--user", type=int)
    parser.add_argument("--drop-all", action="store_true")
    parser.add_argument("--without-landlock", action="store_true")
    options = parser.parse_args()
    from one_setup import become, make_reachable

    os.chdir("/")
    make_reachable()
    capabilities = () if options.drop_all else _KEPT_CAPABILITIES
    enter_container(capabilities=capabilities, has_landlock=not options.without_landlock)
    if options.user is not None:
        become(options.user)
    from census import Census, adopt_orphans

    adopt_orphans()
    before = Census.take()
    print(json.dumps(asyncio.run(describe()) | {"leftovers": before.leftovers()}))


if __name__ == "__main__":
    main()
