"""Head and tail of a stream that may never end."""

from __future__ import annotations


class Capture:
    """Keeps the first and the last bytes of what it is fed and counts the rest. Memory stays below 3 x keep_bytes."""

    def __init__(self, keep_bytes: int) -> None:
        self.total_bytes = 0
        self._head_bytes = keep_bytes - keep_bytes // 2
        self._tail_bytes = keep_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what was read from the stream."""
        self.total_bytes += len(data)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_bytes :] if self._tail_bytes else b""
            if len(self._tail) > 2 * self._tail_bytes:
                del self._tail[: -self._tail_bytes or None]

    def text(self) -> str:
        """Everything if it fitted, else head, a line that says how much is missing, and tail."""
        tail = self._tail[-self._tail_bytes :] if self._tail_bytes else b""
        num_cut = self.total_bytes - len(self._head) - len(tail)
        if num_cut == 0:
            return (self._head + tail).decode("utf-8", "replace")
        head = bytes(self._head[: _whole_characters(self._head)])
        tail = tail[_continuation_bytes(tail) :]
        return f"{head.decode('utf-8', 'replace')}\n[... {num_cut} bytes cut ...]\n{tail.decode('utf-8', 'replace')}"


def _continuation_bytes(data: bytes | bytearray) -> int:
    """How many bytes at the front belong to a character that began before them."""
    for count in range(min(3, len(data))):
        if data[count] & 0xC0 != 0x80:
            return count
    return min(3, len(data))


def _whole_characters(data: bytes | bytearray) -> int:
    """Length of data without a character that is cut at its end."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if width > back else len(data)
    return len(data)
