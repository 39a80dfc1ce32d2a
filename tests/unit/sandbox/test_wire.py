from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from agentmath.sandbox import wire

texts = st.text(st.characters(codec=None), max_size=50)


@given(messages=st.lists(st.dictionaries(texts, texts, max_size=3), max_size=5), size=st.integers(1, 40))
def test_messages_survive_any_cutting_of_the_stream(messages: list[wire.Message], size: int) -> None:
    stream = b"".join(wire.pack(message) for message in messages)
    unpacker = wire.Unpacker()
    received = [m for i in range(0, len(stream), size) for m in unpacker.feed(stream[i : i + size])]
    assert received == messages


def test_lone_surrogates_survive() -> None:
    assert wire.Unpacker().feed(wire.pack({"code": "print('\ud800')"})) == [{"code": "print('\ud800')"}]


def test_receive_one_leaves_what_follows() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.pack({"a": 1}) + b"rest")
        assert wire.receive_one(theirs) == {"a": 1}
        assert theirs.recv(10) == b"rest"


def test_receive_one_at_the_end_of_a_stream_is_none() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(b"\x10\x00\x00\x00{")
        ours.close()
        assert wire.receive_one(theirs) is None


def test_a_command_carries_code_and_input() -> None:
    packed = wire.pack_command(7, is_final=True, code=b"abc", stdin=b"xy")
    header, rest = packed[: wire.COMMAND_HEADER_BYTES], packed[wire.COMMAND_HEADER_BYTES :]
    assert wire.unpack_command_header(header) == (7, True, 3, 2)
    assert rest == b"abcxy"
