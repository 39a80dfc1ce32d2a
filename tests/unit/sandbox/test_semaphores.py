from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable

import pytest

from agentmath.core.types import ToolResult, ToolStatus
from agentmath.sandbox.semaphores import SemLock

Execute = Callable[..., ToolResult]
RECURSIVE, SEMAPHORE = 0, 1


@pytest.fixture(autouse=True)
def needs_seccomp(needs_layer: Callable[[str], None]) -> None:
    needs_layer("seccomp")


def test_a_semaphore_counts_and_refuses_one_release_too_many() -> None:
    semaphore = SemLock(SEMAPHORE, 2, 2, "name", True)
    assert [semaphore.acquire(False) for _ in range(3)] == [True, True, False]
    assert (semaphore._get_value(), semaphore._is_zero(), semaphore._count()) == (0, True, 2)
    assert not semaphore.acquire(True, 0.01)
    assert not semaphore.acquire(True, -1)
    semaphore.release()
    semaphore.release()
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release()


def test_a_recursive_lock_belongs_to_its_thread() -> None:
    lock = SemLock(RECURSIVE, 1, 1, "name", True)
    with lock, lock:
        assert (lock._count(), lock._is_mine()) == (2, True)
        others: list[bool] = []
        thread = threading.Thread(target=lambda: others.append(lock.acquire(False)))
        thread.start()
        thread.join()
        assert others == [False]
    assert (lock._count(), lock._is_mine()) == (0, False)
    with pytest.raises(AssertionError):
        lock.release()


def test_a_release_wakes_who_waits() -> None:
    lock = SemLock(SEMAPHORE, 0, 1, "name", True)
    threading.Timer(0.05, lock.release).start()
    assert lock.acquire(True, 10)


def test_it_has_what_the_librarys_own_has() -> None:
    own = multiprocessing.Lock()._semlock  # type: ignore[attr-defined]
    wanted = {name for name in dir(own) if not name.startswith("__")} - {"_rebuild"}
    assert wanted <= set(dir(SemLock(SEMAPHORE, 1, 1, "name", True)))


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("from multiprocessing.pool import ThreadPool\nwith ThreadPool(4) as p: r = p.map(abs, [-1, 2])\nr", "[1, 2]"),
        ("from multiprocessing.dummy import Pool\np = Pool(3)\nr = sum(p.imap_unordered(abs, range(99)))\nr", "4851"),
        ("import multiprocessing\nq = multiprocessing.Queue()\nq.put(3)\nq.get(timeout=9)", "3"),
        ("import multiprocessing\nlock = multiprocessing.RLock()\nwith lock, lock: pass\n1", "1"),
    ],
)
def test_threads_may_use_what_multiprocessing_offers_them(execute: Execute, code: str, value: str) -> None:
    result = execute(code, cpu_seconds=5.0, wall_seconds=20.0)
    assert (result.status, result.value) == (ToolStatus.OK, value), result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import multiprocessing\nmultiprocessing.Pool(2)",
        "import multiprocessing\np = multiprocessing.Process(target=print)\np.start()",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as p: list(p.map(abs, [1]))",
    ],
)
def test_processes_stay_refused_at_once_and_in_words(execute: Execute, code: str) -> None:
    result = execute(code, cpu_seconds=5.0, wall_seconds=20.0)
    assert (result.status, result.error) == (
        ToolStatus.EXCEPTION,
        "PermissionError: [Errno 1] Operation not permitted",
    )
