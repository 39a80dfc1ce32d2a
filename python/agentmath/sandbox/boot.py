"""Entry point of a zygote: `python -s -P -S -B boot.py EXTENSION_FILE`, with the supervisor at descriptor 3.

-s, -P and -S keep site hooks out, and the environment is the supervisor's choice; so the package is found from this
file's own place and the compiled part from the path given.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
from types import ModuleType

_CONTROL = 3
_MAX_SETUP_BYTES = 1 << 16
_MAX_DESCRIPTORS = 1 << 20


def main() -> None:
    os.closerange(_CONTROL + 1, _MAX_DESCRIPTORS)  # what the trainer's libraries left open to heirs
    os.chdir("/")
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.append(package_root)
    core = _load_core(sys.argv[1]).sandbox
    from agentmath.sandbox import zygote

    control = socket.socket(fileno=_CONTROL)
    setup = json.loads(control.recv(_MAX_SETUP_BYTES) or b"null")
    if setup is None:
        return
    sys.path.remove(package_root)
    sys.path.extend(setup["library_paths"])
    zygote.serve(control, core, setup)


def _load_core(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("agentmath._C", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
