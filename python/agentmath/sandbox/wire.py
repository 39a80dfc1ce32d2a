"""Frames between trainer and supervisor, and the commands from supervisor to child. Both ends are ours."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

Message = dict[str, Any]

_ENCODER = json.JSONEncoder(separators=(",", ":"))
_LENGTH = struct.Struct("<I")
_COMMAND = struct.Struct("<IBII")


def pack(message: Message) -> bytes:
    """Length-prefixed JSON, in ASCII so that lone surrogates survive."""
    body = _ENCODER.encode(message).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def receive_one(end: socket.socket) -> Message | None:
    """The next message of a blocking socket, taking no byte of what follows it; None at the end of the stream."""
    header = end.recv(_LENGTH.size, socket.MSG_WAITALL)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    body = end.recv(length, socket.MSG_WAITALL)
    return json.loads(body) if len(body) == length else None


class Unpacker:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Messages that data completes."""
        self._buffer += data
        messages: list[Message] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(json.loads(self._buffer[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return messages


def pack_command(sequence: int, *, is_final: bool, code: bytes, stdin: bytes) -> bytes:
    """One block of code for a child; after a final one the child exits."""
    return _COMMAND.pack(sequence, is_final, len(code), len(stdin)) + code + stdin


COMMAND_HEADER_BYTES = _COMMAND.size


def unpack_command_header(header: bytes) -> tuple[int, bool, int, int]:
    """(sequence, is_final, bytes of code, bytes of stdin)."""
    sequence, is_final, num_code, num_stdin = _COMMAND.unpack(header)
    return sequence, bool(is_final), num_code, num_stdin
