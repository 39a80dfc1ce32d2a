"""Files tell one story and functions fit on a screen."""

from __future__ import annotations

import ast
from pathlib import Path

from source_tree import files, relative, tree

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_POSITIONAL = 5
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, Function)]


def test_a_file_has_at_most_500_lines() -> None:
    lines = {relative(path): len(path.read_bytes().splitlines()) for path in files(".py", ".cpp", ".h", ".cu", ".toml")}
    assert {name: count for name, count in lines.items() if count > MAX_FILE_LINES} == {}


def positional(function: Function) -> list[str]:
    """Names of the parameters that a caller may give by position; what Python or torch passes itself does not count."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"], ["ctx"]) else names


def num_lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_a_function_has_at_most_80_lines() -> None:
    found = [(relative(path), f.name, num_lines(f)) for path in files(".py") for f in functions(path)]
    assert [item for item in found if item[2] > MAX_FUNCTION_LINES] == []


def is_kernel(function: Function) -> bool:
    """Compiled for a GPU: its parameters are the addresses and numbers of a launch, no interface for people."""
    return any(ast.unparse(decorator) == "triton.jit" for decorator in function.decorator_list)


def test_a_function_has_at_most_5_positional_parameters() -> None:
    paths = files(".py", under=("python", "kernels", "bench"))
    callable_by_people = ((path, f) for path in paths for f in functions(path) if not is_kernel(f))
    found = [(relative(path), f.name, positional(f)) for path, f in callable_by_people]
    assert [item for item in found if len(item[2]) > MAX_POSITIONAL] == []
