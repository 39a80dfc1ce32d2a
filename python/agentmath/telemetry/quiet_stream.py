"""A text stream that never fails its writer: a named boundary between a run and whoever watches it."""

from __future__ import annotations

import os
from typing import Any, TextIO


class QuietStream:
    """Writes to a stream as long as somebody reads it, then to nowhere. Made to be handed to rich as a file."""

    def __init__(self, stream: TextIO | None) -> None:
        """None (a process without standard output) is a stream that nobody reads."""
        self._stream = stream

    @property
    def is_terminal(self) -> bool:
        """Whether the cursor can be moved: a terminal that is not dumb."""
        return self.isatty() and os.environ.get("TERM", "") not in ("", "dumb")

    @property
    def encoding(self) -> str:
        return (self._stream.encoding if self._stream is not None else None) or "utf-8"

    def isatty(self) -> bool:
        try:
            return self._stream is not None and self._stream.isatty()
        except (OSError, ValueError):
            return False

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError("nobody reads this stream")
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write what the stream can show; other characters become question marks."""
        if self._stream is not None:
            try:
                encoding = self.encoding
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
            except (OSError, ValueError, LookupError):
                self._give_up()
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._give_up()

    def write_line(self, text: str) -> None:
        self.write(text + "\n")
        self.flush()

    def _give_up(self) -> None:
        """Forget the stream. What Python still holds of it would fail at exit: let that go nowhere as well."""
        stream, self._stream = self._stream, None
        try:
            descriptor: Any = stream.fileno() if stream is not None else None
            nowhere = os.open(os.devnull, os.O_WRONLY)
        except (OSError, ValueError):
            return
        if descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
