from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentmath.sandbox.capture import Capture


def fed(keep_bytes: int, *pieces: bytes) -> Capture:
    capture = Capture(keep_bytes)
    for piece in pieces:
        capture.feed(piece)
    return capture


def test_what_fits_is_kept_whole() -> None:
    assert fed(10, b"abcde", b"fghij").text() == "abcdefghij"


def test_head_and_tail_are_kept_and_the_rest_is_counted() -> None:
    capture = fed(4, b"ab", b"cdefgh", b"ij")
    assert capture.text() == "ab\n[... 6 bytes cut ...]\nij"
    assert capture.total_bytes == 10


def test_a_character_cut_in_two_is_left_out_of_both_ends() -> None:
    assert fed(6, b"a" + "\u00e9".encode() * 5 + b"z").text() == "a\u00e9\n[... 6 bytes cut ...]\n\u00e9z"
    assert fed(4, b"a" + "\u20ac".encode() * 3 + b"z").text() == "a\n[... 7 bytes cut ...]\nz"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert fed(10, b"a\xff\x00b").text() == "a\ufffd\x00b"


def test_keeping_nothing_still_counts() -> None:
    assert fed(0, b"abc").text() == "\n[... 3 bytes cut ...]\n"


@given(keep=st.integers(0, 40), pieces=st.lists(st.binary(max_size=30), max_size=12))
def test_any_split_of_a_stream_gives_the_same_text_and_bounded_memory(keep: int, pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    split, once = fed(keep, *pieces), fed(keep, whole)
    assert split.text() == once.text()
    assert split.total_bytes == len(whole)
    assert len(split._head) + len(split._tail) <= 3 * keep
