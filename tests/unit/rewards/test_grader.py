from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentmath.config.grading import GradingSection
from agentmath.rewards import worker, workers
from agentmath.rewards.answer import Verdict
from agentmath.rewards.grader import Grader, Question
from agentmath.rewards.workers import Reply, WorkerPool

SLOW = r"x+\binom{1000000000}{500000000}"
"""The library computes this binomial, of a thousand million bits, while it reads."""


def children() -> set[int]:
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def question(gold: str, prediction: str) -> Question:
    return Question(gold=gold, prediction=prediction, form="answer")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(GradingSection(answer_seconds=2.0)) as made:
        yield made


@pytest.fixture
def fresh() -> Iterator[Grader]:
    with Grader(GradingSection()) as made:
        yield made


def test_verdicts_come_in_the_order_of_the_questions(grader: Grader) -> None:
    golds = ["1", r"\sqrt{2}", "3", r"\pi", "5"] * 3
    verdicts = list(grader.grade_many(question(g, g.replace("{2}", "2") + " ") for g in golds))
    assert [v.match for v in verdicts] == [True] * 15
    assert [v.extracted for v in verdicts] == [g.replace("{2}", "2") + " " for g in golds]


def test_plain_numbers_and_equal_letters_start_no_process(fresh: Grader) -> None:
    before = children()
    rows = [question("42", "42.0"), question("(1,2)", "(1, 3)"), question(r"\sqrt{2}", r"\sqrt{2}"), question("", "")]
    assert [v.match for v in fresh.grade_many(rows)] == [True, False, True, False]
    assert children() == before


def test_an_answer_that_hangs_has_no_verdict_and_delays_no_other_by_more_than_its_limit(grader: Grader) -> None:
    list(grader.grade_many([question(r"\sqrt{2}", r"\sqrt{3}")]))
    rows = [question("x", SLOW), *(question(r"\sqrt{8}", r"2\sqrt{2}") for _ in range(20))]
    verdicts = list(grader.grade_many(rows))
    assert verdicts[0].match is None and verdicts[0].error == "the answer took longer than 2 seconds"
    assert [v.match for v in verdicts[1:]] == [True] * 20


def test_a_worker_that_is_killed_costs_at_most_its_own_answer(fresh: Grader) -> None:
    before = children()
    easy = [question(r"\sqrt{8}", r"2\sqrt{2}")] * 2
    list(fresh.grade_many(easy))
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
    assert [v.match for v in fresh.grade_many(easy)] == [True, True]


def test_a_worker_that_cannot_be_started_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with Grader(GradingSection()) as grader:
        verdicts = list(grader.grade_many([question("x", "2x"), question("1", "1"), question("x", "3x")]))
    assert [v.match for v in verdicts] == [None, True, None]
    assert "No such file" in str(verdicts[0].error)


def test_a_worker_that_crashes_is_tried_once_more_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing.py").write_text("import os, sys\nsys.stdin.readline()\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pool = WorkerPool("crashing", num_workers=2, answer_seconds=5.0, memory_bytes=1 << 30)
    tickets = [pool.submit([n]) for n in range(5)]
    replies: list[Reply] = []
    while len(replies) < len(tickets):
        replies += pool.wait()
    pool.close()
    assert sorted(r.ticket for r in replies) == tickets
    assert {r.error for r in replies} == {"the grader's process ended with exit code 7"}


def test_a_worker_that_goes_on_past_its_limit_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deaf.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(workers, "_START_SECONDS", 0.5)
    pool = WorkerPool("deaf", num_workers=1, answer_seconds=0.5, memory_bytes=1 << 30)
    pool.submit("x")
    assert [r.error for r in pool.wait()] == ["the answer took longer than 0.5 seconds"]
    pool.close()


def test_without_the_library_a_formula_has_no_verdict_and_what_to_install_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_LIBRARIES", ("no_such_library",))
    verdict = worker.load_libraries()
    assert verdict is not None and verdict.match is None
    assert "pip install math-verify" in verdict.reason


def test_an_abandoned_run_leaves_nothing_behind_for_the_next(grader: Grader) -> None:
    verdicts = grader.grade_many([question("1", "1"), question("x", SLOW), question("x", SLOW)])
    assert next(verdicts).match is True
    verdicts.close()  # type: ignore[attr-defined]
    assert [v.match for v in grader.grade_many([question(r"\sqrt{2}", r"\sqrt{3}")])] == [False]


def test_closing_ends_every_process() -> None:
    before = children()
    with Grader(GradingSection()) as grader:
        list(grader.grade_many([question("x", "2x")] * 4))
        assert len(children() - before) >= 1
    gc.collect()
    assert children() == before


def test_a_verdict_among_the_questions_is_passed_on(grader: Grader) -> None:
    given = Verdict(match=None, extracted=None, rule="row", reason="bad")
    assert next(iter(grader.grade_many([given, question("1", "1")]))) is given


def test_a_worker_has_the_memory_that_it_may_have(fresh: Grader) -> None:
    before = children()
    list(fresh.grade_many([question("x", "2x")]))
    limits = [Path(f"/proc/{pid}/limits").read_text() for pid in children() - before]
    assert limits
    assert all(re.search(rf"Max address space +{fresh.section.worker_memory_bytes} ", text) for text in limits)


def test_too_little_memory_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object) -> Verdict:
        raise MemoryError

    monkeypatch.setattr(worker, "grade_answer", greedy)
    assert worker.verdict_within_memory("1", "2", GradingSection()).match is None


def test_a_worker_ends_with_a_caller_that_was_killed() -> None:
    program = f"""
from agentmath.config.grading import GradingSection
from agentmath.rewards.grader import Grader, Question
from agentmath.rewards.workers import Reply, WorkerPool
grader = Grader(GradingSection(answer_seconds=3.0))
easy = Question(gold="x", prediction="2x", form="answer")
print(list(grader.grade_many([easy]))[0].match, flush=True)
slow = Question(gold="x", prediction={SLOW!r}, form="answer")
list(grader.grade_many([slow]))
"""
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None and caller.stdout.readline() == "False\n"
    started = set(Path(f"/proc/{caller.pid}/task/{caller.pid}/children").read_text().split())
    assert started
    caller.kill()
    caller.wait()
    caller.stdout.close()
    deadline = time.monotonic() + 15
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


def test_the_caller_is_never_forked_and_need_not_be_a_file() -> None:
    program = """
import os
os.register_at_fork(before=lambda: print("forked", flush=True))
from agentmath.config.grading import GradingSection
from agentmath.rewards.grader import Grader, Question
from agentmath.rewards.workers import Reply, WorkerPool
with Grader(GradingSection()) as grader:
    print(list(grader.grade_many([Question(gold="x", prediction="2x/2", form="answer")]))[0].match)
"""
    done = subprocess.run([sys.executable], input=program, capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n"


def test_nothing_of_a_prediction_is_compiled_or_run_as_python() -> None:
    """Every compilation of the interpreter is watched while the library reads and compares."""
    program = """
import json, sys
from agentmath.config.grading import GradingSection
from agentmath.rewards.answer import grade_answer
names = json.loads(sys.stdin.read())
grade_answer(r"\\sqrt{2}", r"\\sqrt{3}", GradingSection(accept_unevaluated=True))
seen = set()
def watch(event, details):
    if event == "compile":
        seen.add(bytes(details[0]).decode() if isinstance(details[0], bytes) else str(details[0]))
    elif event in ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect") or (
        event in ("open", "import") and "canary" in repr(details)
    ):
        seen.add(f"{event} {details!r}")
sys.addaudithook(watch)
for name in names:
    for gold in ("4", "x", r"\\sqrt{2}", "x < 1", "(1, x)"):
        verdict = grade_answer(gold, name, GradingSection(accept_unevaluated=True))
        assert verdict.match is not True, (gold, name, verdict)
print(json.dumps(sorted(seen)))
"""
    hostile = [
        "__import__('os').system('canary')",
        "exec('canary')",
        r"\text{__import__('canary')}",
        r"x_{canary}+\sqrt{5}",
        r"\operatorname{canary}(1)",
        r"\input{canary}",
        r"\frac{canary}{2}",
        "(lambda: canary)()",
        "open('canary','w')",
        "2**3+canary",
        r"\sqrt{canary} < 1",
    ]
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(hostile), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    compiled = json.loads(done.stdout)
    assert compiled, "sympy makes its integers from text, so the watch must have seen some"
    harmless = re.compile(r"from sympy import \*|Integer \([0-9]+ \)")
    assert [source for source in compiled if not harmless.fullmatch(source)] == []


@pytest.mark.parametrize("switch", [False, True])
def test_hostile_predictions_get_a_verdict_or_a_counted_error(switch: bool) -> None:
    hostile = [
        *(
            "9^9^9",
            "9^{9^{9^{9}}}",
            "10**10**10",
            "(" * 5000,
            "7" * 1_000_000,
            "((((10!)!)!)!)!",
            "1000000!!",
            "\ud800",
            "",
        ),
        *(
            "__import__('os')",
            r"\input{/etc/passwd}",
            r"\sqrt" * 900,
            "1/0",
            "0^0",
            r"\frac{1}{\frac{1}{0}}",
            "x" * 2000,
        ),
        *(r"\sum_{i=1}^{10^{9}} i", r"\int e^{x^2} dx", "{" * 900, "\x00\x01", "1e999999999", "%" * 500, r"\\" * 900),
    ]
    section = GradingSection(accept_unevaluated=switch, answer_seconds=2.0)
    with Grader(section) as grader:
        verdicts = list(grader.grade_many(question("42", text) for text in hostile))
    assert [v for v in verdicts if v.match is True] == []
    assert all(v.error for v in verdicts if v.match is None)
    if not switch:
        assert all(v.match is False for v in verdicts)


def test_grading_cases_are_all_graded_as_wanted(grader: Grader, real_file: Callable[[str], Path]) -> None:
    rows = [json.loads(line) for line in real_file("grading_cases.jsonl").read_text("utf-8").splitlines()]
    questions = [Question(gold=r["gold"], prediction=r["prediction"], form=r["form"]) for r in rows]
    verdicts = list(grader.grade_many(questions))
    assert [(r["id"], v) for r, v in zip(rows, verdicts, strict=True) if v.match is not r["match"]] == []
