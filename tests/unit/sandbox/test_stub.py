from __future__ import annotations

import ast
from pathlib import Path

import agentmath
from agentmath import _C
from agentmath.core.interfaces import Sandbox
from agentmath.sandbox.local import LocalSandbox


def declared() -> dict[str, set[str]]:
    """Names in the stub file by room."""
    (stub,) = [path for place in agentmath.__path__ if (path := Path(place) / "_C.pyi").exists()]
    rooms = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)]
    return {
        room.name: {node.name for node in room.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for room in rooms
    }


def test_the_stub_names_what_the_compiled_module_holds() -> None:
    compiled = {
        room: {name for name in dir(getattr(_C, room)) if not name.startswith("_")}
        for room in dir(_C)
        if not room.startswith("_")
    }
    assert declared() == compiled


def test_a_local_sandbox_is_a_sandbox(sandbox: LocalSandbox) -> None:
    as_protocol: Sandbox = sandbox
    assert callable(as_protocol.execute)
