"""Frames between the trainer and an engine process: a JSON header and raw arrays, over a local stream socket.

    frame   = magic 4 bytes | header length u32 | body length u64 | header | body       (little-endian)
    header  = {"op": ..., "arrays": [[name, dtype, shape], ...], more fields}
    body    = the arrays' bytes, in that order

Both sides are ours and of one version, which the first frame of each says; sizes are bounded all the same, so that a
stranger or a broken peer ends in one sentence and not in a full memory.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from agentmath.core.errors import EngineError

PROTOCOL = 1
"""Raised whenever a frame means something else than before."""
MAX_HEADER_BYTES = 1 << 20
MAX_BODY_BYTES = 1 << 28
_MAGIC = b"AMEW"
_PREFIX = struct.Struct("<4sIQ")
_DTYPES = {"int32": np.dtype("<i4"), "float32": np.dtype("<f4")}
Array = npt.NDArray[Any]


class EngineLost(EngineError):
    """The other side is gone: what it had in work may be taken up elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message."""

    op: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What JSON can say."""
    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """int32 or float32, of any shape."""


def encode(frame: Frame) -> bytes:
    """Bytes of a frame. Raises EngineError when it is larger than the other side would take."""
    arrays = {name: np.ascontiguousarray(a) for name, a in frame.arrays.items()}
    table = [[name, a.dtype.name, list(a.shape)] for name, a in arrays.items()]
    assert all(dtype in _DTYPES for _, dtype, _ in table), table
    header = json.dumps({**frame.fields, "op": frame.op, "arrays": table}, separators=(",", ":")).encode()
    num_bytes = sum(a.nbytes for a in arrays.values())
    _check_sizes(len(header), num_bytes)
    return b"".join([_PREFIX.pack(_MAGIC, len(header), num_bytes), header, *(a.tobytes() for a in arrays.values())])


def decode(header: bytes, body: bytes) -> Frame:
    """The frame of a header and a body. Raises EngineError when they are no frame."""
    try:
        fields = json.loads(header)
        op, table = str(fields.pop("op")), fields.pop("arrays")
        arrays: dict[str, Array] = {}
        offset = 0
        for name, dtype, shape in table:
            if any(not isinstance(n, int) or n < 0 for n in shape):
                raise ValueError(f"array {name!r} has shape {shape}")
            count = math.prod(shape)
            arrays[name] = np.frombuffer(body, _DTYPES[dtype], count, offset).reshape(shape)
            offset += count * _DTYPES[dtype].itemsize
        if offset != len(body):
            raise ValueError(f"arrays take {offset} bytes, the body has {len(body)}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"a frame of the engine protocol cannot be read: {type(error).__name__}: {error}") from error
    return Frame(op=op, fields=fields, arrays=arrays)


async def read(reader: asyncio.StreamReader) -> Frame:
    """The next frame. Raises EngineLost at the end of the stream, EngineError for what is no frame."""
    try:
        magic, num_header, num_body = _PREFIX.unpack(await reader.readexactly(_PREFIX.size))
        if magic != _MAGIC:
            raise EngineError(f"the other side does not speak the engine protocol: its frame begins with {magic!r}")
        _check_sizes(num_header, num_body)
        return decode(await reader.readexactly(num_header), await reader.readexactly(num_body))
    except (asyncio.IncompleteReadError, OSError) as error:
        raise EngineLost(f"the connection to the engine has ended ({type(error).__name__})") from error


def _check_sizes(num_header: int, num_body: int) -> None:
    for what, size, limit in (("header", num_header, MAX_HEADER_BYTES), ("body", num_body, MAX_BODY_BYTES)):
        if size > limit:
            raise EngineError(f"a frame's {what} has {size} bytes, the engine protocol takes {limit} at most")
