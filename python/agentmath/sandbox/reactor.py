"""One epoll and a heap of timers: everything the supervisor waits for."""

from __future__ import annotations

import heapq
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable

Handler = Callable[[int], None]
"""Called with the epoll events of its descriptor."""


class Timer:
    """A callback at a time; cancelling lets go of the callback and all it holds."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None] | None) -> None:
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class Reactor:
    """Descriptors and times on the monotonic clock."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0

    def watch(self, fd: int, handler: Handler) -> None:
        """Call handler whenever fd can be read."""
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN)

    def watch_writing(self, fd: int, wanted: bool) -> None:
        """Whether a watched descriptor's handler is also called when it can be written."""
        if fd in self._handlers:
            self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def forget(self, fd: int) -> None:
        """Stop watching; harmless when fd is not watched. Must come before fd is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def watches(self, fd: int) -> bool:
        return fd in self._handlers

    def after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once, seconds from now."""
        self._count += 1
        timer = Timer(callback)
        heapq.heappush(self._heap, (time.monotonic() + seconds, self._count, timer))
        return timer

    def run_once(self) -> None:
        """Wait for the next event or time and handle all that are due."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        timeout = max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else None
        for fd, events in self._epoll.poll(timeout):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)
        now = time.monotonic()
        while self._heap and self._heap[0][0] <= now:
            callback = heapq.heappop(self._heap)[2].callback
            if callback is not None:
                callback()


class Outbox:
    """Sends on a watched non-blocking socket, in order, without losing what it does not take at once."""

    def __init__(self, end: socket.socket, reactor: Reactor) -> None:
        self._end = end
        self._reactor = reactor
        self._waiting: deque[tuple[bytes, tuple[int, ...]]] = deque()

    def send(self, data: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send now or as soon as there is room. Descriptors sent along are closed here once they are on their way.

        A neighbour that is gone is noticed where it is read from.
        """
        if self._waiting:
            self._waiting.append((data, fds))
            return
        rest = self._try(data, fds)
        if rest is not None:
            self._waiting.append(rest)
            self._reactor.watch_writing(self._end.fileno(), True)

    def flush(self) -> None:
        """To be called when the socket can be written again."""
        while self._waiting:
            rest = self._try(*self._waiting[0])
            if rest is not None:
                self._waiting[0] = rest
                return
            self._waiting.popleft()
        self._reactor.watch_writing(self._end.fileno(), False)

    def _try(self, data: bytes, fds: tuple[int, ...]) -> tuple[bytes, tuple[int, ...]] | None:
        """What could not be sent, None when all was."""
        try:
            sent = socket.send_fds(self._end, [data], fds) if fds else self._end.send(data)
        except BlockingIOError:
            return data, fds
        except OSError:
            sent = len(data)
        for fd in fds:
            os.close(fd)
        return (data[sent:], ()) if sent < len(data) else None
