from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.data.shingles import Passage, best_passage, keys_of, shingles_of, weigh

WORDS = st.lists(st.sampled_from("abcd"), max_size=14)


def test_shingles_are_the_runs_of_words() -> None:
    assert shingles_of("abcde", 4) == [("a", "b", "c", "d"), ("b", "c", "d", "e")]


def test_a_short_text_is_one_shingle_and_an_empty_one_has_none() -> None:
    assert shingles_of(("what", "now"), 4) == [("what", "now")]
    assert shingles_of((), 4) == []


def test_a_shingle_weighs_less_the_more_texts_have_it() -> None:
    weights = weigh(["abc", "abd", "xbc"], 2)
    assert weights == {("a", "b"): 0.5, ("b", "c"): 0.5, ("b", "d"): 1.0, ("x", "b"): 1.0}


def test_a_repeated_text_and_a_repeated_shingle_count_once() -> None:
    assert weigh(["abab", "abab"], 2) == {("a", "b"): 1.0, ("b", "a"): 1.0}


def test_keys_are_the_rarest_and_no_more_than_needed() -> None:
    weights = {("common",): 0.1, ("rare",): 1.0, ("some",): 0.5, ("other",): 0.5}
    # Of 4 shingles 3 must be there to reach 0.7, so 1 may be missing: 2 keys.
    assert keys_of(weights, 0.7) == [("rare",), ("other",)]
    assert keys_of(weights, 1.0) == [("rare",)]
    assert len(keys_of(weights, 0.01)) == 4
    assert keys_of({}, 0.7) == []


@given(st.dictionaries(st.text("abc", min_size=1), st.sampled_from([1.0, 0.5, 0.25]), min_size=1), st.data())
def test_what_holds_enough_of_a_question_holds_one_of_its_keys(weights: dict[str, float], data: st.DataObject) -> None:
    question = {(word,): weight for word, weight in weights.items()}
    containment = data.draw(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 1.0]))
    held = set(data.draw(st.lists(st.sampled_from(sorted(question)), unique=True)))
    share = Fraction(len(held), len(question))
    weighted = sum(question[s] for s in held) / sum(question.values())
    if share >= containment or weighted >= containment:
        assert held & set(keys_of(question, containment))


def test_the_best_passage_is_where_the_question_stands() -> None:
    question = dict.fromkeys(shingles_of("abcd", 2), 1.0)
    assert best_passage("xxabxxxxxxabcdxx", question, 2, 4) == Passage(10, 14, 1.0, 1.0)


def test_pieces_all_over_a_long_text_are_no_passage() -> None:
    question = dict.fromkeys(shingles_of("abcd", 2), 1.0)
    spread = "ab" + "x" * 20 + "bc" + "x" * 20 + "cd"
    assert best_passage(spread, question, 2, 4).share == pytest.approx(1 / 3)


def test_what_is_not_there_has_no_passage() -> None:
    assert best_passage("xyz", {("a", "b"): 1.0}, 2, 2) == Passage(0, 0, 0.0, 0.0)
    assert best_passage("", {}, 2, 0) == Passage(0, 0, 0.0, 0.0)


@given(WORDS, WORDS)
def test_no_window_holds_more_than_the_best_passage(words: list[str], asked: list[str]) -> None:
    question = weigh([asked, words[:5]], 2)
    question = {shingle: question[shingle] for shingle in shingles_of(asked, 2)}
    found = best_passage(words, question, 2, len(asked))
    total = sum(question.values())
    width = max(2 * len(asked), 2)
    best = 0.0
    for start in range(len(words)):
        inside = set(shingles_of(words, 2)[start : start + width - 1])
        best = max(best, sum(question.get(shingle, 0.0) for shingle in inside))
    assert found.weighted_share * total == pytest.approx(best)
    assert 0 <= found.start <= found.end <= len(words)
    assert found.end - found.start <= width
