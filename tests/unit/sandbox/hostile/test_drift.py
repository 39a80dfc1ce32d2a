"""Ordinary programs pass under the filter: an allow-list that lags behind Python or the C library shows here."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator

import pytest
from drift_corpus import MATPLOTLIB, NUMPY, STANDARD, SYMPY

from agentmath.config.sandbox import SandboxSection
from agentmath.core.types import Limits, ToolResult, ToolStatus
from agentmath.sandbox.local import LocalSandbox, open_sandbox

LIMITS = Limits(cpu_seconds=60.0, wall_seconds=120.0)
LIBRARIES = ("numpy", "sympy")


@pytest.fixture(scope="module")
def warm() -> Iterator[LocalSandbox]:
    """With the libraries loaded before snippets run, as a recipe would have it."""
    preload = tuple(name for name in LIBRARIES if importlib.util.find_spec(name))
    opened = asyncio.run(open_sandbox(SandboxSection(num_workers=2, preload=preload)))
    yield opened
    asyncio.run(opened.close())


def run(sandbox: LocalSandbox, code: str) -> ToolResult:
    return asyncio.run(sandbox.execute(code, limits=LIMITS))


def check(sandbox: LocalSandbox, program: tuple[str, str]) -> None:
    code, value = program
    result = run(sandbox, code)
    assert (result.status, str(result.value)) == (ToolStatus.OK, value), result


@pytest.mark.parametrize("program", STANDARD.values(), ids=STANDARD)
def test_the_standard_library_works(sandbox: LocalSandbox, program: tuple[str, str]) -> None:
    check(sandbox, program)


@pytest.mark.parametrize("program", NUMPY.values(), ids=NUMPY)
def test_numpy_works(warm: LocalSandbox, program: tuple[str, str]) -> None:
    pytest.importorskip("numpy")
    check(warm, program)


@pytest.mark.parametrize("program", SYMPY.values(), ids=SYMPY)
def test_sympy_works(warm: LocalSandbox, program: tuple[str, str]) -> None:
    pytest.importorskip("sympy")
    check(warm, program)


@pytest.mark.parametrize("program", MATPLOTLIB.values(), ids=MATPLOTLIB)
def test_matplotlib_draws_into_files(warm: LocalSandbox, program: tuple[str, str]) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    check(warm, program)


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_can_be_imported_by_the_snippet_itself(sandbox: LocalSandbox, name: str) -> None:
    pytest.importorskip(name)
    result = run(sandbox, f"import {name}\n{name}.__name__")
    assert (result.status, result.value) == (ToolStatus.OK, repr(name)), result


def test_all_of_it_works_in_one_session(sandbox: LocalSandbox) -> None:
    async def run_all() -> list[str]:
        session = await sandbox.open_session()
        wrong: list[str] = []
        for name, (code, value) in STANDARD.items():
            folder = f"import os\nos.mkdir({name!r})\nos.chdir({name!r})"
            await sandbox.execute(folder, session=session, limits=LIMITS)
            result = await sandbox.execute(code, session=session, limits=LIMITS)
            if (result.status, str(result.value)) != (ToolStatus.OK, value):
                wrong.append(f"{name}: {result.status} {result.value} {result.error}")
        await sandbox.close_session(session)
        return wrong

    assert asyncio.run(run_all()) == []
