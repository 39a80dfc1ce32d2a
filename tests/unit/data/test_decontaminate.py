"""The rule of contamination: on hand-made texts, on collected cases, and on pairs that it was not made with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from agentmath.core.errors import ConfigError
from agentmath.data.decontaminate import (
    EvaluationIndex,
    Match,
    Question,
    Rule,
    Verdict,
    answers_differ,
)
from agentmath.data.files import read_rows

PAIRS = Path(__file__).parents[2] / "fixtures/contaminated_pairs.jsonl"
VAN = "A van covers 45 miles in the first hour and 60 miles in the second. How far does it go in all?"


def index(*questions: str, answer: str | None = None, rule: Rule | None = None) -> EvaluationIndex:
    made = [Question(set_name="set", id=str(i), text=text, answer=answer) for i, text in enumerate(questions)]
    return EvaluationIndex(made, rule or Rule())


def verdict_on(train: str, *questions: str, answers: tuple[str | None, str | None] = (None, None)) -> Verdict | None:
    """The verdict on a text for the first of the questions; answers: the text's and the question's."""
    for match in index(*questions, answer=answers[1]).match(train, answers[0]):
        if match.question.id == "0":
            return match.verdict
    return None


def test_an_equal_text_is_contaminated_whatever_its_answer() -> None:
    (match,) = index(VAN, answer="105").match(VAN.upper(), "7")
    assert (match.verdict, match.reason, match.share) == (Verdict.CONTAMINATED, "equal after normalising", 1.0)


def test_a_question_inside_a_longer_text_is_contaminated_and_shown() -> None:
    (match,) = index(VAN).match(f"Solve this. {VAN} Show your work. Then rest for a while.")
    assert match.verdict is Verdict.CONTAMINATED
    assert match.passage.startswith("a van covers 45") and match.passage.endswith("go in all")


def test_a_missing_number_makes_a_variant() -> None:
    (match,) = index(VAN).match(VAN.replace("60", "70"))
    # 22 words make 19 shingles; 4 of them hold the 60.
    assert (match.verdict, match.reason) == (Verdict.VARIANT, "lacks 60")
    assert match.share == pytest.approx(15 / 19, abs=1e-4)


def test_a_number_elsewhere_in_a_long_text_is_not_the_question_s() -> None:
    far = " ".join(f"word{chr(97 + i % 26)}" for i in range(100))
    assert verdict_on(f"{VAN.replace('60', '70')} {far} 60", VAN) is Verdict.VARIANT


def test_known_answers_that_differ_make_a_variant() -> None:
    text = VAN.replace("A van", "The car")
    assert verdict_on(text, VAN, answers=("105", "105.0")) is Verdict.CONTAMINATED
    assert verdict_on(text, VAN, answers=("105", "15")) is Verdict.VARIANT
    assert verdict_on(text, VAN, answers=(None, "15")) is Verdict.CONTAMINATED


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("1/2", "0.5", False),
        (r"\frac{1}{2}", r"\dfrac12", False),
        ("x = 5", "5", False),
        ("5 apples", "$5", False),
        ("1,000", "1000", False),
        ("(B)", r"\text{(E)}", True),
        ("(2, 3)", "(3, 2)", True),
        ("7", "8", True),
        ("", "8", False),
    ],
)
def test_answers_differ_only_where_it_is_sure(one: str, other: str, differ: bool) -> None:
    assert answers_differ(one, other) is answers_differ(other, one) is differ


def test_closing_formulas_alone_are_boilerplate_or_nothing() -> None:
    closing = "It can be written as m/n, where m and n are relatively prime positive integers. Find m + n."
    questions = [f"{story} {closing}" for story in ("Toss a coin.", "Cut a cake.", "Roll two dice.", "Draw a card.")]
    (match, *_) = index(*questions).match(f"Sum the series. {closing}")
    # 21 words of the closing make 18 of the 21 shingles; 4 questions have each of them: 4.5 of a weight of 7.5.
    assert match.verdict is Verdict.BOILERPLATE
    assert match.share == pytest.approx(18 / 21, abs=1e-4)
    assert match.weighted_share == pytest.approx(0.6, abs=1e-4)
    assert verdict_on(f"Sum the series. {closing}", questions[0]) is Verdict.CONTAMINATED


def test_another_drawing_makes_a_variant_and_none_says_nothing() -> None:
    asked = "Find the area of the shaded region in square units. [asy] draw((0,0)--(4,0)--(4,9)--cycle); [/asy]"
    assert (
        verdict_on(asked.replace("draw((0,0)--(4,0)--(4,9)--cycle)", "fill(circle((4,9),2))"), asked) is Verdict.VARIANT
    )
    assert verdict_on(asked.split(" [asy]")[0], asked) is Verdict.CONTAMINATED
    assert verdict_on(f"How long is AB? {asked[asked.index('[asy]') :]}", asked) is None


@pytest.mark.parametrize("text", ["", " \n", "?!", "$$"])
def test_nothing_matches_nothing(text: str) -> None:
    assert index(VAN, text).match(text) == []
    assert index(VAN, text, rule=Rule(candidates="minhash")).match(text) == [] if has_datasketch() else True


def test_a_text_shorter_than_a_shingle_is_only_met_by_itself() -> None:
    assert verdict_on("7 times 8?", "7 times 8") is Verdict.CONTAMINATED
    assert verdict_on("What is 7 times 8 in words", "7 times 8") is None


def test_thresholds_are_obeyed() -> None:
    changed = VAN.replace("60", "70")
    assert index(VAN, rule=Rule(containment=0.78)).match(changed) != []
    assert index(VAN, rule=Rule(containment=0.79)).match(changed) == []
    assert index(VAN, rule=Rule(containment=1.0)).match(f"x {VAN} y") != []
    assert index(VAN, rule=Rule(shingle_words=13)).match(changed) == []


def test_sets_are_weighed_apart() -> None:
    made = [Question(set_name=name, id="0", text=VAN) for name in ("one", "two")]
    matches = EvaluationIndex(made, Rule()).match(VAN)
    assert [(m.question.set_name, m.verdict) for m in matches] == [("one", "contaminated"), ("two", "contaminated")]


def test_a_question_that_stands_twice_in_a_set_is_found_twice_and_weighs_the_same() -> None:
    matches = index(VAN, VAN).match(f"Well: {VAN}")
    assert [(m.question.id, m.weighted_share) for m in matches] == [("0", 1.0), ("1", 1.0)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"containment": 0.0}, "containment 0.0 is no share"),
        ({"containment": float("nan")}, "containment nan is no share"),
        ({"containment": 1.1}, "containment 1.1 is no share"),
        ({"shingle_words": 0}, "shingles of 0 words"),
        ({"bands": 0}, "0 bands of 4 rows"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Rule(**settings)


def has_datasketch() -> bool:
    from importlib.util import find_spec

    return find_spec("datasketch") is not None


@pytest.mark.skipif(not has_datasketch(), reason="datasketch is not installed")
def test_minhash_finds_what_resembles_and_the_index_whatever_it_finds() -> None:
    questions = [f"{VAN.replace('45', str(n))} It is {word}." for n, word in enumerate(["hot", "cold", "wet"], 10)]
    exact, hashed = index(*questions), index(*questions, rule=Rule(candidates="minhash"))
    by_id = {match.question.id: match.verdict for match in hashed.match(questions[1].upper())}
    assert by_id["1"] is Verdict.CONTAMINATED
    for text in [*questions, f"Now: {questions[0]}", VAN, "unrelated text of no interest at all"]:
        by_index = exact.match(text)
        assert all(match in by_index for match in hashed.match(text))
    # One text of 200 words around it leaves a resemblance of 0.1: 32 bands of 4 rows meet it once in 300 times.
    wrapped = f"{' '.join(chr(97 + i % 26) * (1 + i // 26) for i in range(200))} {questions[0]}"
    assert exact.match(wrapped)[0].verdict is Verdict.CONTAMINATED
    assert hashed.match(wrapped) == []


def test_collected_cases_are_judged_as_well_as_words_can(real_file: Callable[[str], Path]) -> None:
    found: Counter[tuple[bool, bool]] = Counter()
    missed: set[str] = set()
    for row in read_rows(str(real_file("decontam_cases.jsonl"))):
        case = row.cells
        said = verdict_on(case["train"], case["test"]) is Verdict.CONTAMINATED
        found[case["contaminated"], said] += 1
        if case["contaminated"] and not said:
            missed.add(case["relation"])
    assert found == {(True, True): 10, (True, False): 5, (False, False): 9}
    assert missed == {"paraphrase", "translation", "entity_changed"}


def rows_by_id(path: Path) -> dict[str, dict[str, Any]]:
    return {row.cells["id"]: row.cells for row in read_rows(str(path))}


def real_index(questions: Iterable[dict[str, Any]]) -> EvaluationIndex:
    return EvaluationIndex(
        [Question(set_name="", id=q["id"], text=q["question"], answer=q["answer"]) for q in questions], Rule()
    )


def test_real_pairs_are_all_told_apart(real_file: Callable[[str], Path]) -> None:
    found: Counter[tuple[bool, Verdict | None]] = Counter()
    files: dict[str, dict[str, dict[str, Any]]] = {}
    indexes: dict[str, EvaluationIndex] = {}
    for row in read_rows(str(real_file("decontam_real_pairs.jsonl"))):
        case = row.cells
        for name in (case["train_file"], case["test_file"]):
            if name not in files:
                files[name] = rows_by_id(real_file(name))
        if case["test_file"] not in indexes:
            indexes[case["test_file"]] = real_index(files[case["test_file"]].values())
        train = files[case["train_file"]][case["train_id"]]
        matches = indexes[case["test_file"]].match(train["question"], train["answer"])
        by_id = {match.question.id: match.verdict for match in matches}
        found[case["contaminated"], by_id.get(case["test_id"])] += 1
    assert found[True, Verdict.CONTAMINATED] == 8
    assert found[False, Verdict.CONTAMINATED] == 0
    assert found.total() == 26


def test_pairs_that_the_rule_was_not_made_with() -> None:
    """Written after the rule was fixed, and never used to change it: 25 of 25 and 17 of 28."""
    cases = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    tests = {case["test"]: case["test_answer"] for case in cases}
    questions = [Question(set_name="", id=text, text=text, answer=answer) for text, answer in tests.items()]
    asked = EvaluationIndex(questions, Rule())
    found: Counter[tuple[bool, bool]] = Counter()
    for case in cases:
        matches: list[Match] = asked.match(case["train"], case.get("train_answer"))
        named = {match.question.id for match in matches if match.verdict is Verdict.CONTAMINATED}
        assert named <= {case["test"]}, case["id"]
        found[case["contaminated"], bool(named)] += 1
    assert found == {(True, True): 17, (True, False): 11, (False, False): 25}
