"""What the architecture tests read: files of the tree, and their imports."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python"
SOURCE_FOLDERS = ("python", "kernels", "csrc", "tests", "bench", ".ci")


def files(*suffixes: str, under: tuple[str, ...] = SOURCE_FOLDERS) -> list[Path]:
    """Source files with one of the suffixes, in order."""
    found = (path for folder in under for path in (ROOT / folder).rglob("*"))
    return sorted(
        path for path in found if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
    )


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    """Dotted name of a file below python/ or kernels/."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports, wherever in the file: at its top, in a function, for type checkers only."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "importlib.import_module",
            "import_module",
            "__import__",
        ):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))
