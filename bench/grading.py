"""How many answers are graded in a second, plain numbers and formulas, and what one that hangs costs the others.

    python bench/grading.py --json [--rounds N]

Plain numbers take the path of `agentmath grade`, from JSON line to JSON line. Formulas are the pairs of
tests/unit/rewards/test_near_misses.jsonl that plain numbers and letters do not decide; math-verify alone grades the
same pairs in one process, as its documentation shows it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from common import emit, record

from agentmath.cli.graded_rows import Counts, graded_lines
from agentmath.config.grading import GradingSection
from agentmath.rewards.answer import quick_verdict
from agentmath.rewards.grader import Grader, Question

ROOT = Path(__file__).parents[1]
NUM_PLAIN = 20_000
HANGING = r"x+\binom{1000000000}{500000000}"


def pairs() -> list[dict[str, Any]]:
    """Near misses and other spellings: gold, prediction, match."""
    path = ROOT / "tests/unit/rewards/test_near_misses.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def plain_numbers() -> dict[str, float]:
    """Answers a second from line to line."""
    predictions = ("{}", "{}.0", "\\boxed{{{}}}", "{:,}", "{} apples", "\\frac{{{}}}{{1}}", "x = {}", "-{}")
    rows = (
        (str(n), json.dumps({"gold": str(n), "prediction": predictions[n % 8].format(n), "form": "answer"}).encode())
        for n in range(NUM_PLAIN)
    )
    counts = Counts()
    with Grader(GradingSection()) as grader:
        begun = time.perf_counter()
        for _ in graded_lines(rows, grader, counts):
            pass
        seconds = time.perf_counter() - begun
    return {"answers": NUM_PLAIN, "right": counts.verdicts[True], "answers_per_second": NUM_PLAIN / seconds}


def formulas(rounds: int) -> dict[str, Any]:
    """Answers a second of the workers and of math-verify, and the mistakes of both over all pairs."""
    rows = pairs()
    questions = [Question(gold=r["gold"], prediction=r["prediction"], form="answer") for r in rows]
    hard = [q for q in questions if quick_verdict(q.gold, q.prediction) is None]
    with Grader(GradingSection()) as grader:
        verdicts = [v.match for v in grader.grade_many(questions)]
        begun = time.perf_counter()
        for _ in grader.grade_many(hard * rounds):
            pass
        seconds = time.perf_counter() - begun
    library = [by_math_verify(q) for q in questions]
    begun = time.perf_counter()
    for question in hard * rounds:
        by_math_verify(question)
    library_seconds = time.perf_counter() - begun
    wanted = [r["match"] for r in rows]
    return {
        "formulas": len(hard),
        "workers": grader.section.num_workers,
        "answers_per_second": len(hard) * rounds / seconds,
        "math_verify_answers_per_second": len(hard) * rounds / library_seconds,
        "near_misses": wanted.count(False),
        "other_spellings": wanted.count(True),
        "mistakes": mistakes(wanted, verdicts),
        "math_verify_mistakes": mistakes(wanted, library),
    }


def mistakes(wanted: Sequence[bool], found: Sequence[bool | None]) -> dict[str, int]:
    """Wrong answers taken for right, and right ones for wrong."""
    both = list(zip(wanted, found, strict=True))
    return {"taken_for_right": both.count((False, True)), "taken_for_wrong": both.count((True, False))}


def by_math_verify(question: Question) -> bool:
    """What math-verify says of gold and prediction, each in its own marks."""
    from math_verify import parse, verify

    return verify(parse(f"${question.gold}$"), parse(f"\\boxed{{{question.prediction}}}"))


def hanging(answer_seconds: float) -> dict[str, float]:
    """How much longer a window of formulas takes when one of them hangs."""
    easy = [Question(gold="\\sqrt{8}", prediction=f"{n}\\sqrt{{2}}", form="answer") for n in range(40)]
    times: list[float] = []
    with Grader(GradingSection(answer_seconds=answer_seconds)) as grader:
        for questions in (easy, easy, [Question(gold="x", prediction=HANGING, form="answer"), *easy]):
            begun = time.perf_counter()
            verdicts = list(grader.grade_many(questions))
            times.append(time.perf_counter() - begun)
    lost = sum(v.match is None for v in verdicts)
    return {"answer_seconds": answer_seconds, "lost": lost, "delay_seconds": times[2] - times[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=2, help="how often the formulas are graded")
    arguments = parser.parse_args()
    body = {"plain": plain_numbers(), "formulas": formulas(arguments.rounds), "hanging": hanging(2.0)}
    emit(
        record("grading", vars(arguments), body),
        as_json=arguments.json,
        lines=[f"{part}: {json.dumps(figures)}" for part, figures in body.items()],
    )


if __name__ == "__main__":
    main()
