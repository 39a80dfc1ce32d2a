from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentmath.engines.stops import StopFinder

WORDS = ["a", "</", "co", "de", ">", "</code>", "e>\n", "\u00e9", " b", "<"]


class WordTokenizer:
    eos_ids = ()

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(WORDS[i] for i in ids)

    def render_chat(self, messages: Any, *, add_generation_prompt: bool) -> str:
        raise NotImplementedError


STOP = ("</code>",)


def finder() -> StopFinder:
    return StopFinder(WordTokenizer(), len(WORDS))


def test_only_tokens_with_a_last_character_are_suspects() -> None:
    assert finder().suspects(STOP).nonzero()[0].tolist() == [4, 5, 6]


@pytest.mark.parametrize("ids", [[0, 1, 2, 3, 4], [5], [0, 5], [1, 2, 3, 4]])
def test_a_text_over_any_number_of_tokens_is_found_at_its_last(ids: list[int]) -> None:
    assert finder().find(STOP, ids) == "</code>"
    assert finder().find(STOP, ids[:-1]) is None


def test_a_text_completed_earlier_is_not_found_again() -> None:
    assert finder().find(STOP, [5, 4]) is None
    assert finder().find(STOP, [5, 5]) == "</code>"


def test_characters_behind_the_text_in_its_last_token_do_not_hide_it() -> None:
    # "d" + "e>\n" would be needed for code; here the tag is spelt </ co de > and then </ co + d... by other words.
    words = WordTokenizer()
    assert words.decode([1, 2, 3, 4, 6]).endswith("e>\n")
    assert finder().find(("de>",), [1, 2, 3, 4]) == "de>"
    assert finder().find(("e>",), [0, 6]) == "e>"


def test_the_text_that_ends_first_wins() -> None:
    assert finder().find(("</code>", "code"), [5]) == "code"


def test_the_window_holds_every_text() -> None:
    assert finder().window(("ab", "</code>")) >= len("</code>")


def test_a_wide_last_character_makes_suspects_of_cut_characters() -> None:
    suspects = finder().suspects(("\u00e9",))
    assert suspects[7]
    assert not suspects[0]
