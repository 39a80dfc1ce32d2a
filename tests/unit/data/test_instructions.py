from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.data.instructions import without_instructions

FIRST = "Work through this problem. End your response with a line of the form Answer: $Answer, and nothing else."
LAST = 'Put your answer on a line of its own, after "Answer:".'


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (f"{FIRST}\n\nWhat is $1+1$?\n\n{LAST}", "What is $1+1$?"),
        (f"{FIRST}\n\nTwo lines.\n\nWhat is $1+1$?", "Two lines.\n\nWhat is $1+1$?"),
        ('What is 1+1? Think step by step and give the final answer after "####".', "What is 1+1?"),
        (r"Compute $\frac{1}{2}$. Reason first, and put your final answer within \boxed{}.", r"Compute $\frac{1}{2}$."),
        (r"Compute $3^2$ Put the final answer in \boxed{}.", "Compute $3^2$"),
        ("Compute 3.\nWrite the answer as \\boxed{x}.\n" + LAST, "Compute 3."),
    ],
)
def test_sentences_on_how_to_answer_are_cut(asked: str, left: str) -> None:
    assert without_instructions(asked) == left


@pytest.mark.parametrize(
    "asked",
    [
        "What is 1/2 + 1/3? Express your answer as a common fraction.",
        r"Which digit goes into the box? $3\boxed{\phantom{0}}7$ is prime. It is not 1.",
        "Enter your answer in the form $(r,\\theta)$.",
        r"Put your final answer within \boxed{}.",
        LAST,
        "#### is how Tom writes a heading. How many signs does he need for 3?",
        "",
    ],
)
def test_what_belongs_to_the_problem_stays(asked: str) -> None:
    assert without_instructions(asked) == asked


@given(st.text(alphabet="ab. \n?Answer:#\\boxed{}", max_size=80), st.sampled_from(["", FIRST, LAST]))
def test_nothing_but_a_beginning_and_an_end_is_cut(text: str, added: str) -> None:
    whole = f"{text}\n\n{added}".strip()
    left = without_instructions(whole)
    assert left in whole
    assert bool(left) == bool(whole)
    assert without_instructions(left) == left


@pytest.mark.parametrize("name", ["math500.jsonl", "math_train.jsonl.gz", "deepscaler_subset.jsonl.gz", "svamp.jsonl"])
def test_real_problems_lose_nothing(name: str, real_file: Callable[[str], Path]) -> None:
    path = real_file(name)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        questions = [json.loads(line)["question"] for line in stream]
    assert [q for q in questions if without_instructions(q) != q] == []
