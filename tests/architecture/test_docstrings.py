"""Public names of the rooms that everybody builds on say what they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import files, relative, tree

ROOMS = ("python/agentmath/core", "python/agentmath/config", "python/agentmath/algorithms")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(body: list[ast.stmt]) -> Iterator[Definition]:
    """Public definitions; a property is documented by its name, a section of the recipe by its module."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        decorators = {ast.unparse(d) for d in node.decorator_list}
        bases = {ast.unparse(b) for b in node.bases} if isinstance(node, ast.ClassDef) else set[str]()
        if "property" not in decorators and "Section" not in bases:
            yield node
        if isinstance(node, ast.ClassDef):
            yield from public(node.body)


def test_public_names_have_docstrings() -> None:
    named = [(relative(path), node) for path in files(".py", under=ROOMS) for node in public(tree(path).body)]
    assert [(path, node.name) for path, node in named if not ast.get_docstring(node)] == []


def test_every_module_says_what_it_is() -> None:
    modules = [path for path in files(".py", under=("python", "kernels")) if path.name != "__init__.py"]
    assert [relative(path) for path in modules if not ast.get_docstring(tree(path))] == []
