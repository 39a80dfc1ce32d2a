from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmath.config.data import DataSection
from agentmath.core.errors import DataError
from agentmath.core.types import Task
from agentmath.data.demonstrations import USE_HEAD, USE_TOOL, demonstrations, program_of
from agentmath.data.generators import arithmetic, two_step
from agentmath.data.sources import load_source
from agentmath.formats.dialects import DIALECTS

TASK = Task(id="1", question="76 dollars, 25 off. How much?", answer="51", solution="( 76.0 - 25.0 )")
TASKS = arithmetic(40, 2, 0)


def test_with_the_tool_a_demonstration_has_two_turns() -> None:
    found = demonstrations([TASK], tool_share=1.0, seed=0)[0]
    assert found.turns == (f"<think>{USE_TOOL}</think><code>print(76 - 25)</code>", r"\boxed{51}")
    assert found.outputs == ()


def test_without_the_tool_it_has_one() -> None:
    assert demonstrations([TASK], tool_share=0.0, seed=0)[0].turns == (f"<think>{USE_HEAD}</think>\\boxed{{51}}",)


@pytest.mark.parametrize(
    ("solution", "words"),
    [
        ("76 - 25", "Subtract 25 from 76."),
        ("8 + 2", "Add 8 and 2."),
        ("8 * 2", "Multiply 8 by 2."),
        ("8 / 2", "Divide 8 by 2."),
        ("( 8 + 2 ) / 5", "Add 8 and 2, then divide by 5."),
        ("9 * ( 8 - 2 )", "Subtract 2 from 8, then multiply by 9."),
        ("20 - ( 8 + 2 )", "Add 8 and 2, then subtract from 20."),
        ("2 ** 3", "Compute 2 ** 3."),
    ],
)
def test_an_explanation_says_what_is_done(solution: str, words: str) -> None:
    answer = str(int(eval(solution)))
    task = Task(id="1", question="q", answer=answer, solution=solution)
    assert f"<think>{words}</think>" in demonstrations([task], tool_share=1.0, seed=0, explain=True)[0].turns[0]


def test_the_explanation_of_a_worked_solution_is_what_is_asked() -> None:
    task = Task(id="1", question="He has 2 pens <b>. How many? He asks.", answer="5", solution="2+3=<<2+3=5>>5\n#### 5")
    assert "<think>How many?</think>" in demonstrations([task], tool_share=1.0, seed=0, explain=True)[0].turns[0]


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1), st.integers(0, 50))
def test_the_share_of_the_tool_is_exact_and_the_seed_decides(tool_share: float, seed: int) -> None:
    found = demonstrations(TASKS, tool_share=tool_share, seed=seed)
    assert sum(len(d.turns) == 2 for d in found) == round(tool_share * len(TASKS))
    assert {d.task.id for d in found} == {t.id for t in TASKS}
    assert [d.turns for d in found] == [d.turns for d in demonstrations(TASKS, tool_share=tool_share, seed=seed)]


def test_tasks_without_a_program_are_left_out_and_none_at_all_is_an_error() -> None:
    bare = Task(id="2", question="q", answer="1")
    wrong = Task(id="3", question="q", answer="2", solution="1 + 2")
    assert program_of(bare) is program_of(wrong) is None
    assert [d.task.id for d in demonstrations([bare, TASK, wrong], tool_share=1.0, seed=0)] == ["1"]
    with pytest.raises(DataError, match="none of 2 training tasks"):
        demonstrations([bare, wrong], tool_share=1.0, seed=0)


def test_nearly_all_of_svamp_becomes_demonstrations_of_one_short_line(real_file: Callable[[str], Path]) -> None:
    section = DataSection(name="svamp", kind="svamp", path=str(real_file("svamp.jsonl")))
    found = demonstrations(load_source(section, seed=0).tasks, tool_share=1.0, seed=0)
    assert len(found) >= 995
    assert all(d.turns[1] == f"\\boxed{{{d.task.answer}}}" for d in found)
    assert max(len(d.turns[0]) for d in found) < 100


@pytest.mark.parametrize(
    ("make", "explain", "digest"),
    [
        (arithmetic, False, "d51b791317f2708d9febd8dc5c56e410ee1a8ed6bb91397b351b7b44ffe38854"),
        (arithmetic, True, "0d76f7910e05fd9e4e1ed7f0ab11fecfa4c214339f2893045a737fb75ad2cb0a"),
        (two_step, False, "8913fd24d2621bf7792faa6021bd5e612dafcdece60367a00fc57c7602d76f0c"),
        (two_step, True, "1cdf2b4dc57a24a06a4c6ed2c2ee7d7623d090ddc7e0f53c1a73193d8deae8e9"),
    ],
)
def test_the_default_dialect_writes_what_runs_so_far_were_trained_on(
    make: Callable[[int, int, int], list[Task]], explain: bool, digest: str
) -> None:
    made = demonstrations(make(300, 2, 0), tool_share=0.4, seed=0, explain=explain)
    texts = [text for d in made for text in (d.task.id, *d.turns)]
    assert hashlib.sha256("\0".join(texts).encode()).hexdigest() == digest


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_writes_demonstrations_that_it_reads(name: str) -> None:
    dialect = DIALECTS[name]
    for found in demonstrations(TASKS, tool_share=0.5, seed=0, explain=True, dialect=dialect):
        *calls, last = found.turns
        for turn in calls:
            reading = dialect.read(turn, in_think=False)
            assert reading.source is not None
            assert (reading.kept, reading.faults) == (len(turn), ())
        assert dialect.answer(last) == found.task.answer
        assert dialect.read(last, in_think=False).source is None
