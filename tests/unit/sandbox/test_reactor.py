from __future__ import annotations

import os
import socket

import pytest

from agentmath.sandbox.reactor import Outbox, Reactor


def test_timers_fire_in_order_and_cancelled_ones_do_not() -> None:
    reactor, fired = Reactor(), []
    reactor.after(0.02, lambda: fired.append("second"))
    reactor.after(0.01, lambda: fired.append("first"))
    reactor.after(0.0, lambda: fired.append("never")).cancel()
    while len(fired) < 2:
        reactor.run_once()
    assert fired == ["first", "second"]


def test_a_descriptor_is_served_until_it_is_forgotten() -> None:
    reactor, seen = Reactor(), []
    reading, writing = os.pipe()
    reactor.watch(reading, lambda _: seen.append(os.read(reading, 1)))
    os.write(writing, b"ab")
    reactor.run_once()
    reactor.run_once()
    reactor.forget(reading)
    reactor.forget(reading)
    os.write(writing, b"c")
    reactor.after(0.0, lambda: None)
    reactor.run_once()
    assert seen == [b"a", b"b"]
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("num_messages", [1, 400])
def test_messages_that_do_not_fit_follow_later_whole_and_in_order(num_messages: int) -> None:
    reactor = Reactor()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        outbox = Outbox(ours, reactor)
        reactor.watch(ours.fileno(), lambda _: outbox.flush())
        expected = b"".join(str(i).encode() * 5000 for i in range(num_messages))
        for i in range(num_messages):
            outbox.send(str(i).encode() * 5000)
        received = b""
        while len(received) < len(expected):
            try:
                received += theirs.recv(1 << 16)
            except BlockingIOError:
                reactor.run_once()
        assert received == expected


def test_descriptors_sent_along_are_closed_here() -> None:
    reactor = Reactor()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox(ours, reactor)
        reading, writing = os.pipe()
        outbox.send(b"x", fds=(writing,))
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(writing)
        data, (arrived,), _, _ = socket.recv_fds(theirs, 10, 1)
        os.write(arrived, b"through")
        assert (data, os.read(reading, 10)) == (b"x", b"through")
        os.close(arrived)
        os.close(reading)


def test_a_neighbour_that_is_gone_is_no_error_here() -> None:
    reactor = Reactor()
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        Outbox(ours, reactor).send(b"x")
