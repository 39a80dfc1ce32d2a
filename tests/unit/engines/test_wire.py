from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agentmath.core.errors import EngineError
from agentmath.engines import wire
from agentmath.engines.wire import EngineLost, Frame


def read(data: bytes, count: int = 1) -> list[Frame]:
    async def go() -> list[Frame]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return [await wire.read(reader) for _ in range(count)]

    return asyncio.run(go())


arrays = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        hnp.arrays(np.int32, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)),
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4)),
    ),
    max_size=3,
)
fields = st.dictionaries(
    st.text(max_size=5).filter(lambda name: name not in ("op", "arrays")),
    st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=5), st.none(), st.lists(st.booleans(), max_size=3)),
    max_size=3,
)


@given(op=st.text(max_size=5), fields=fields, arrays=arrays)
def test_a_frame_comes_back_as_it_was(op: str, fields: dict[str, Any], arrays: dict[str, Any]):
    (back,) = read(wire.encode(Frame(op=op, fields=fields, arrays=arrays)))
    assert (back.op, dict(back.fields)) == (op, fields)
    assert back.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(back.arrays[name], array)


def test_frames_follow_each_other_in_one_stream():
    frames = [Frame(op=str(n), arrays={"a": np.arange(n, dtype=np.int32)}) for n in range(4)]
    back = read(b"".join(map(wire.encode, frames)), 4)
    assert [(f.op, len(f.arrays["a"])) for f in back] == [("0", 0), ("1", 1), ("2", 2), ("3", 3)]


@given(st.integers(0, 10**6), st.data())
def test_a_stream_that_is_cut_or_damaged_never_raises_anything_but_an_engine_error(seed: int, data: st.DataObject):
    good = wire.encode(Frame(op="tokens", fields={"n": seed}, arrays={"ids": np.arange(9, dtype=np.int32)}))
    cut = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for at in data.draw(st.lists(st.integers(0, max(len(cut) - 1, 0)), max_size=3)) if cut else []:
        cut[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(EngineError):
        read(bytes(cut))


def test_the_end_of_the_stream_is_a_lost_engine():
    with pytest.raises(EngineLost):
        read(b"")
    with pytest.raises(EngineLost):
        read(wire.encode(Frame(op="a"))[:-1])


def test_a_stranger_is_told_apart():
    with pytest.raises(EngineError, match=r"does not speak the engine protocol: its frame begins with b'HTTP'"):
        read(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_sizes_are_refused_before_they_are_read():
    header = struct.pack("<4sIQ", b"AMEW", 10, 1 << 60)
    with pytest.raises(EngineError, match=r"body has 1152921504606846976 bytes, the engine protocol takes 268435456"):
        read(header)
    with pytest.raises(EngineError, match="header has"):
        wire.encode(Frame(op="x", fields={"y": "z" * wire.MAX_HEADER_BYTES}))


@pytest.mark.parametrize(
    "table",
    [[["a", "int32", [3]]], [["a", "int32", [-1]]], [["a", "object", [1]]], [["a", "int32"]], [["a", "int32", ["1"]]]],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(table: list[Any]):
    header = json.dumps({"op": "x", "arrays": table}).encode()
    with pytest.raises(EngineError, match="cannot be read"):
        wire.decode(header, b"\0" * 8)
