"""Semaphores for multiprocessing where there can be no second process and no named semaphore.

ThreadPool and the locks and queues of multiprocessing want one although threads alone use it, and the C library keeps
it in /dev/shm, which is closed to snippets. Among threads it needs no such place.
"""

from __future__ import annotations

import _multiprocessing
import _thread

_RECURSIVE = 0


class SemLock:
    """_multiprocessing.SemLock, with its methods and errors, among the threads of one process."""

    SEM_VALUE_MAX = _multiprocessing.SemLock.SEM_VALUE_MAX
    handle = 0

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        if not 0 <= value <= maxvalue:
            raise ValueError("invalid value")
        # Here, since a zygote that has imported it pays for that at every fork.
        from threading import Condition

        self.kind, self.maxvalue = kind, maxvalue
        self.name = None if unlink else name  # what has a name is given to a process that cleans up
        self._value = value
        self._num_held = 0
        self._holder = 0
        self._changed = Condition()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        with self._changed:
            if self.kind == _RECURSIVE and self._is_mine():
                self._num_held += 1
                return True
            patience = timeout if block else 0
            if not self._changed.wait_for(lambda: self._value > 0, None if patience is None else max(0, patience)):
                return False
            self._value -= 1
            self._num_held += 1
            self._holder = _thread.get_ident()
            return True

    def release(self) -> None:
        with self._changed:
            if self.kind == _RECURSIVE and not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self.kind != _RECURSIVE and self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self._num_held -= 1
            if self.kind == _RECURSIVE and self._num_held > 0:
                return
            self._value += 1
            self._changed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_mine(self) -> bool:
        return self._num_held > 0 and self._holder == _thread.get_ident()

    def _count(self) -> int:
        return self._num_held

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None:
        self._num_held = 0


def install() -> None:
    """Let multiprocessing of this process and its children take these."""
    setattr(_multiprocessing, "SemLock", SemLock)  # noqa: B010
