"""Entry point of the sandbox process: `python -I -S boot.py SOCKET_FD EXTENSION_FILE`.

-I and -S keep site hooks and the caller's environment out; so the package is found from this file's own place and the
compiled part from the path given. The process then splits: the parent supervises, its child is the zygote.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import socket
import sys
from types import ModuleType

_MAX_DESCRIPTORS = 1 << 16


def main() -> None:
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.append(package_root)
    core = _load_core(sys.argv[2]).sandbox
    from agentmath.sandbox import wire

    trainer = socket.socket(fileno=int(sys.argv[1]))
    _allow_many_descriptors()
    setup = wire.receive_one(trainer)
    if setup is None:
        return
    ours, zygotes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        from agentmath.sandbox import zygote

        trainer.close()
        ours.close()
        sys.path.remove(package_root)
        sys.path.extend(setup["library_paths"])
        zygote.serve(zygotes, core, setup)
    from agentmath.sandbox import supervisor

    zygotes.close()
    supervisor.run(trainer, ours, core, zygote_pid=pid, setup=setup)


def _load_core(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("agentmath._C", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _allow_many_descriptors() -> None:
    """A live session costs the supervisor three. No more than that: where the kernel cannot close a range at once,
    children close all that the limit allows one by one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    main()
