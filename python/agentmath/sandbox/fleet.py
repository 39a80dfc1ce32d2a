"""The sandbox processes: starting, choosing, replacing, ending them. One serves up to eight workers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from agentmath.config.sandbox import SandboxSection
from agentmath.core.errors import SandboxError
from agentmath.sandbox import layers, library, wire
from agentmath.sandbox.link import Link, describe_python

_START_SECONDS = 120.0
_WORKERS_PER_PROCESS = 8
_MAX_STILLBORN = 3
"""Processes in a row that ended before they were ready; then there is no use in starting more."""


class Fleet:
    """Keeps as many processes alive as there should be. on_answer gets what they say, on_death who takes over."""

    def __init__(
        self,
        section: SandboxSection,
        without: frozenset[str],
        *,
        on_answer: Callable[[Link, wire.Message], None],
        on_death: Callable[[Link, Link | None, str], None],
    ) -> None:
        self.layers: tuple[layers.Layer, ...] = ()
        self.layer_names: tuple[str, ...] = ()
        """Those in force."""
        self.failure: str | None = None
        """Why no process can be started any more."""
        self._section = section
        self._without = without
        self._on_answer = on_answer
        self._on_death = on_death
        self._num_workers: dict[Link, int] = {}
        """Of the living."""
        self._num_stillborn = 0
        self._is_closing = False

    @property
    def links(self) -> list[Link]:
        return list(self._num_workers)

    async def start(self) -> None:
        """Start the processes and wait until they have said what they are. Raises SandboxError."""
        num_workers = self._section.num_workers or len(os.sched_getaffinity(0))
        num_links = -(-num_workers // _WORKERS_PER_PROCESS)
        for i in range(num_links):
            self._add((num_workers + i) // num_links)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        while self.failure is None and any(link.hello is None for link in self._num_workers):
            for link in self._num_workers:
                link.attach(loop)
            if loop.time() > deadline:
                raise SandboxError(f"the sandbox process did not start within {_START_SECONDS:g} s")
            await asyncio.sleep(0.001)
        if self.failure is not None:
            raise SandboxError(self.failure)
        layers.check(self._section.mode, self.layers)

    def choose(self) -> Link:
        """The process with the least work for each of its workers."""
        return min(self._num_workers, key=lambda link: link.num_outstanding / self._num_workers[link])

    async def close(self) -> None:
        """End all processes; returns when they are gone."""
        self._is_closing = True
        for link in self.links:
            link.attach(asyncio.get_running_loop())
            link.hang_up()
        for link in self.links:
            await link.wait_until_dead()

    def _add(self, num_workers: int) -> Link:
        section = self._section
        setup = {
            "num_workers": num_workers,
            "queue_seconds": section.queue_seconds,
            "cpu_seconds": section.cpu_seconds,
            "memory_bytes": section.memory_bytes,
            "file_bytes": section.file_bytes,
            "trainer_pid": os.getpid(),
            "preload": list(section.preload),
            "without": sorted(self._without),
            "readable": library.readable_paths(),
            "needed_paths": library.needed_paths(),
            "library_paths": library.package_folders(),
        }
        try:
            link = Link(setup, on_message=self._on_message)
        except OSError as error:
            raise SandboxError(f"the sandbox process cannot be started: {error}") from error
        self._num_workers[link] = num_workers
        return link

    def _on_message(self, link: Link, message: wire.Message) -> None:
        if "gone" in message:
            self._replace(link)
        elif message is link.hello:
            self._greet(message)
        else:
            self._on_answer(link, message)

    def _greet(self, hello: wire.Message) -> None:
        self._num_stillborn = 0
        if "failed" in hello:
            self.failure = f"the sandbox process cannot start: {hello['failed']}"
        elif hello["python"] != describe_python():
            self.failure = f"the sandbox process runs another Python: {hello['python']} instead of {describe_python()}"
        else:
            self.layers = layers.report(tuple(row) for row in hello["layers"])
            self.layer_names = tuple(layer.name for layer in self.layers if layer.in_force)

    def _replace(self, link: Link) -> None:
        num_workers = self._num_workers.pop(link)
        last_words = link.error_text() or "it said nothing"
        self._num_stillborn += link.hello is None
        if self._num_stillborn >= _MAX_STILLBORN and self.failure is None:
            self.failure = f"the sandbox process ended before it was ready: {last_words}"
        replacement = None
        if self.failure is None and not self._is_closing:
            try:
                replacement = self._add(num_workers)
            except SandboxError as error:
                self.failure = str(error)
        self._on_death(link, replacement, last_words)
