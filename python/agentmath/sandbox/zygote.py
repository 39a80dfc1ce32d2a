"""A zygote's life: load what snippets use, enter isolation, then fork hardened children until the supervisor is gone.

It never sees code, input or output, so no child can find any here. The loop itself is compiled (csrc/sandbox/zygote.h).
"""

from __future__ import annotations

import _sitebuiltins
import atexit
import builtins
import gc
import json
import os
import socket
import sys
from typing import Any, NoReturn

from agentmath.sandbox import isolation, runner, semaphores
from agentmath.sandbox.identity import describe_python

_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": ".",
    "TMPDIR": "./",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_WARM_MODULES = (
    *("math", "cmath", "fractions", "decimal", "operator", "itertools", "functools", "collections", "heapq", "bisect"),
    *("re", "string", "datetime", "json", "copy", "typing", "dataclasses"),
)
"""Cheap to hold and often imported. Not among them: random and threading, whose handlers run after every fork."""

_REHEARSALS = 32
"""The interpreter rewrites code that has run some times for speed: better once here than in every child."""


def serve(control: socket.socket, core: Any, setup: dict[str, Any]) -> NoReturn:
    """Answer the supervisor's set-up message, then fork and reap until it is gone."""
    try:
        entered, settings = _prepare(core, setup)
    except Exception as error:  # the boundary at which a failed start becomes a message
        control.send(f"F{type(error).__name__}: {error}".encode()[:4096])
        os._exit(1)
    folder = "" if entered.has("mount_namespace") else entered.scratch_base
    control.send(f"R{folder}\n{json.dumps(entered.rows)}".encode())
    if not core.serve_zygote(control=control.fileno(), **settings):
        os._exit(0)
    _reseed()
    runner.serve(control.fileno(), core.encode_report)


def _prepare(core: Any, setup: dict[str, Any]) -> tuple[isolation.Isolation, dict[str, Any]]:
    """All that is done once, in the order that it needs: imports, isolation, then what children find."""
    found = describe_python()
    if found != setup["python"]:
        raise RuntimeError(f"another Python was started, {found}, than the one that asked for it, {setup['python']}")
    trainer = _watch(setup["trainer_pid"])
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    oom_score = _open_oom_score()
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)
    for name in (*_WARM_MODULES, *setup["preload"]):
        __import__(name)
    _warm_libraries()
    entered = isolation.enter(
        core,
        without=frozenset(setup["without"]),
        needed_paths=setup["needed_paths"],
        trainer_pid=setup["trainer_pid"],
    )
    core.hide_memory()
    _furnish()
    if entered.has("seccomp"):  # so no snippet can have a second process
        semaphores.install()
    for _ in range(_REHEARSALS):
        runner.rehearse(core.encode_report)
    atexit._clear()  # what imports registered is not for children, which leave as an interpreter would
    gc.collect()
    gc.freeze()
    layers = {name for name, in_force, _ in entered.rows if in_force}
    settings = {"trainer": trainer, "statm": statm, "oom_score": oom_score, "cgroup": entered.cgroup, "layers": layers}
    return entered, settings | {"scratch_base": entered.scratch_base, "readable": setup["readable"]}


def _watch(trainer_pid: int) -> int:
    """A descriptor that tells of the trainer's end, -1 on a kernel without them. Its end of the socket does not tell:
    processes that it forked may hold it too."""
    if os.getppid() != trainer_pid:
        raise RuntimeError("the trainer is gone")
    try:
        return os.pidfd_open(trainer_pid)
    except OSError:
        return -1


def _open_oom_score() -> int:
    """A descriptor, -1 where there is none; /proc is hidden later."""
    try:
        return os.open("/proc/self/oom_score_adj", os.O_RDWR)
    except OSError:
        return -1


def _warm_libraries() -> None:
    """Fill what libraries load or compute on first use, which every child would otherwise do again."""
    if "numpy" in sys.modules:
        __import__("numpy.random")
    sympy = sys.modules.get("sympy")
    if sympy is not None:
        x, n = sympy.Symbol("x"), sympy.Symbol("n", integer=True)
        sympy.solve(x**3 - 3 * x + 1, x)
        sympy.simplify(sympy.integrate(x * sympy.sin(x), x))
        sympy.factor(x**4 - 1)
        sympy.summation(n**2, (n, 1, 10))
        sympy.factorint(360360)
        str(sympy.Matrix([[1, 2], [3, 4]]).inv())


def _furnish() -> None:
    """Set what children find, here and not in each of them, since every page that a child changes is copied for it."""
    sys.stdin = sys.__stdin__ = runner.input_stream(b"")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = runner.output_stream(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = runner.output_stream(2)  # type: ignore[misc]
    sys.argv = [""]
    # The interpreter was started without the site module, which gives these names.
    builtins.exit = builtins.quit = sys.exit
    builtins.help = _sitebuiltins._Helper()


def _reseed() -> None:
    """Children share the zygote's memory, random state included; `random` reseeds itself at fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
