"""Imports point down the floors only, and heavy libraries are imported in one file each."""

from __future__ import annotations

import ast

import pytest
from source_tree import PACKAGE, ROOT, files, imports, module_name, relative, tree

FLOORS = (
    {"core", "config", "recipes"},
    {"formats", "algorithms", "telemetry"},
    {"agents", "tools", "engines", "sandbox", "rewards", "data", "training"},
    {"rollout"},
    {"conformance", "evaluation", "synthesis"},
    {"orchestration"},
    {"cli"},
    {"__main__"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ALLOWED = {
    ("config.check", "core.errors"),
    ("config.load", "core.errors"),
    ("config.overrides", "core.errors"),
    ("config.scenario_file", "core.errors"),
}
"""Imports within one floor, each an exception of its own."""
MODULES = files(".py", under=("python",))


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def target(name: str) -> str | None:
    """Module of ours that an imported name lies in, without the package's name; None for other libraries."""
    if name.split(".")[0] != "agentmath":
        return None
    parts = name.split(".")
    while len(parts) > 1 and not is_module(parts):
        parts.pop()
    return ".".join(parts[1:])


def is_module(parts: list[str]) -> bool:
    path = PACKAGE.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file() or parts[1:] == ["_C"]


def test_every_room_has_a_floor() -> None:
    rooms = {path.name for path in (PACKAGE / "agentmath").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= FLOOR.keys()


def points_up(own: str, name: str) -> bool:
    """True when module `own` may not import `name`, as that lies on its own floor or above."""
    module = target(name)
    if module is None or module in ("", "_C") or not room(own):
        return False
    other = module.split(".")[0]
    if other == room(own) or (own.removeprefix("agentmath."), module) in ALLOWED:
        return False
    return FLOOR[other] >= FLOOR[room(own)]


def test_imports_point_down() -> None:
    wrong = [(relative(path), name) for path in MODULES for name in imports(path) if points_up(module_name(path), name)]
    assert wrong == []


def test_the_rule_itself_tells_up_from_down() -> None:
    assert points_up("agentmath.training.step", "agentmath.data.sources")
    assert points_up("agentmath.formats.agentmath", "agentmath.cli.main.main")
    assert points_up("agentmath.config.dump", "agentmath.core.types")
    assert not points_up("agentmath.config.load", "agentmath.core.errors.ConfigError")
    assert not points_up("agentmath.training.step", "agentmath.core.types.Tokens")
    assert not points_up("agentmath.sandbox.worker", "agentmath._C")
    assert not points_up("agentmath.training.step", "torch.nn")


def test_exceptions_are_in_use() -> None:
    used = {(module_name(p).removeprefix("agentmath."), target(name)) for p in MODULES for name in imports(p)}
    assert used >= ALLOWED


@pytest.mark.parametrize(
    ("importer", "never"),
    [
        ("rollout", {"torch", "agentmath_kernels"}),
        ("formats", {"torch", "agentmath_kernels"}),
        ("core", {"torch", "transformers"}),
        ("config", {"torch", "transformers", "numpy"}),
        ("training", {"agentmath.rollout", "agentmath.agents"}),
    ],
)
def test_rooms_never_import(importer: str, never: set[str]) -> None:
    for path in files(".py", under=(f"python/agentmath/{importer}",)):
        for name in imports(path):
            assert not any(name == bad or name.startswith(f"{bad}.") for bad in never), f"{relative(path)}: {name}"


@pytest.mark.parametrize("library", ["transformers", "vllm", "ray"])
def test_a_heavy_library_is_imported_in_one_file_lazily(library: str) -> None:
    users = [path for path in MODULES if library in {name.split(".")[0] for name in imports(path)}]
    assert len(users) <= 1, f"{library} is imported in {[relative(path) for path in users]}"
    for path in users:
        top = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
        assert library not in {name.split(".")[0] for name in names}, f"{relative(path)} imports {library} at its top"


def test_kernels_know_nothing_of_the_package_but_its_compiled_core() -> None:
    for path in files(".py", under=("kernels",)):
        ours = {name for name in imports(path) if name.split(".")[0] == "agentmath"}
        assert ours <= {"agentmath._C"}, relative(path)


def test_nobody_imports_a_recipe_or_a_test() -> None:
    for path in [*MODULES, *files(".py", under=("kernels",))]:
        assert not any(name.split(".")[0] in ("tests", "bench", "conftest") for name in imports(path)), relative(path)
    assert (ROOT / "python/agentmath/recipes").is_dir()
