from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.data.expressions import Unconvertible
from agentmath.data.worked_solutions import question_numbers, solution_program, solution_steps

QUESTION = "Natalia sold clips to 48 friends in April, and half as many in May. How many altogether?"
SOLUTION = (
    "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\n"
    "Natalia sold 48+24 = <<48+24=72>>72 clips altogether in April and May.\n#### 72"
)


def values(solution: str) -> list[float]:
    return [float(s.value) for s in solution_steps(solution)]


def test_marks_become_steps_with_the_words_of_their_line() -> None:
    program = solution_program(QUESTION, SOLUTION, "72")
    assert program.source == (
        "# Natalia sold clips in May\nclips = 48 // 2\n"
        "# Natalia sold clips altogether in April and May\nprint(48 + clips)"
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("She had $43 - $18 = $25 left", 25),
        ("Jolyn is 7 - 2 = 5 months older", 5),
        ("3950 cases - 200 cases = 3750 cases", 3750),
        ("6 x 7 = 42 eggs", 42),
        ("10 \u00d7 $4 = $40", 40),
        ("1,000 * 2 = 2,000", 2000),
        ("20% of it: 20% * 50 = 10", 10),
        ("so (2 + 3) * 4 = 20", 20),
        ("1.5 / .25 = <<6=6>>6", 6),
    ],
)
def test_calculations_without_marks_are_found_where_they_come_out(line: str, value: float) -> None:
    assert values(line) == [value]


@pytest.mark.parametrize("line", ["x = 5", "2 + 2 = 5", "3x = 12", "he is 5 = five", "= 3", "4 = 4", "+ = 3", "1) = 2"])
def test_what_does_not_come_out_as_written_is_left_out(line: str) -> None:
    assert values(line) == []


def test_several_marks_in_a_line_are_several_steps() -> None:
    assert values("He has 2+3=<<2+3=5>>5 and 4*5=<<4*5=20>>20 pens") == [5, 20]


@pytest.mark.parametrize(
    ("solution", "answer", "reason"),
    [
        ("No calculation.\n#### 5", "5", "no calculation"),
        ("Let x be it. x=<<30=30>>30\n#### 30", "30", "stated"),
        ("<<2+3=5>>5\n#### 7", "7", "would print"),
    ],
)
def test_solutions_that_give_no_program_say_why(solution: str, answer: str, reason: str) -> None:
    with pytest.raises(Unconvertible, match=reason):
        solution_program("How many?", solution, answer)


def test_a_stated_number_of_the_question_is_no_calculation_to_miss() -> None:
    solution = "The first is <<15=15>>15.\nThen 15-1=<<15-1=14>>14\n#### 14"
    assert solution_program("One is 15, the other 1 less.", solution, "14").printed == "14"


def test_numbers_of_a_question_are_found() -> None:
    assert {float(n) for n in question_numbers("$1,000 at 20% for .5 years, 3 times.")} == {1000, 0.2, 0.5, 3}


@given(st.text(alphabet="0123456789+-*/=<>()$%., xab#\n", max_size=120))
def test_no_solution_makes_the_reader_fail(text: str) -> None:
    try:
        solution_program(text, text, "5")
    except Unconvertible:
        return


def test_long_lines_without_end_are_cut() -> None:
    assert values("1 + " * 100_000 + "1 = 2") == []
    assert values("(" * 100_000 + "=" * 100_000) == []


def test_most_of_gsm8k_becomes_programs(real_file: Callable[[str], Path]) -> None:
    with gzip.open(real_file("gsm8k_train.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][:1000]
    num_converted = 0
    for row in rows:
        try:
            program = solution_program(row["question"], row["solution"], row["answer"])
        except Unconvertible:
            continue
        num_converted += float(program.printed) == float(row["answer"].replace(",", ""))
    assert num_converted >= 0.93 * len(rows)
