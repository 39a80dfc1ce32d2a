from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError, DataError
from agentmath.core.types import Task
from agentmath.data.mixture import TaskStream, evaluation_sets, load_pool, normalised_question, split, without_repeats


def make_tasks(num: int, source: str = "s") -> list[Task]:
    return [
        Task(id=f"{source}-{i}", question=f"{source} question {i}?", answer=str(i), source=source) for i in range(num)
    ]


def write(path: Path, questions: list[str]) -> str:
    path.write_text("".join(json.dumps({"question": q, "answer": 1}) + "\n" for q in questions), encoding="utf-8")
    return str(path)


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def stream_of(lengths: list[int], weights: list[float], seed: int) -> TaskStream:
    train = {f"s{i}": make_tasks(n, f"s{i}") for i, n in enumerate(lengths)}
    return TaskStream(train, dict(zip(train, weights, strict=False)), seed=seed)


@given(sizes, st.integers(0, 99), st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_a_position_has_one_task_whatever_was_asked_before(lengths: list[int], seed: int, ordinals: list[int]) -> None:
    weights = [1.0 + i for i in range(len(lengths))]
    first, second = stream_of(lengths, weights, seed), stream_of(lengths, weights, seed)
    in_order = {o: first.task_at(o) for o in sorted(ordinals)}
    assert all(second.task_at(o) == in_order[o] for o in ordinals)


@given(sizes, st.integers(0, 99), st.integers(1, 5))
def test_every_task_comes_once_an_epoch(lengths: list[int], seed: int, num_epochs: int) -> None:
    stream = stream_of(lengths, [float(n) for n in lengths], seed)
    counts = Counter(stream.task_at(i).id for i in range(sum(lengths) * num_epochs))
    of_first = [counts[f"s0-{i}"] for i in range(lengths[0])]
    assert max(of_first) - min(of_first) <= 1
    if len(lengths) == 1:
        assert set(of_first) == {num_epochs}


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=4), st.integers(0, 99), st.integers(1, 400))
def test_after_any_number_of_tasks_each_source_has_had_its_share(weights: list[float], seed: int, num: int) -> None:
    stream = stream_of([3] * len(weights), weights, seed)
    counts = Counter(stream.task_at(i).source for i in range(num))
    for i, weight in enumerate(weights):
        assert abs(counts[f"s{i}"] - num * weight / sum(weights)) < len(weights) + 1


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def order(seed: int, epoch: int) -> list[str]:
        stream = stream_of([30], [1.0], seed)
        return [stream.task_at(epoch * 30 + i).id for i in range(30)]

    assert len({tuple(order(s, e)) for s in (0, 1) for e in (0, 1)}) == 4


def test_a_stream_far_ahead_costs_no_more() -> None:
    assert stream_of([5, 7], [1.0, 2.0], 0).task_at(10**15).source in ("s0", "s1")


def test_a_stream_without_tasks_is_refused() -> None:
    with pytest.raises(DataError, match="no training task"):
        TaskStream({"s": []}, {"s": 1.0}, seed=0)
    with pytest.raises(ValueError, match="negative"):
        stream_of([1], [1.0], 0).task_at(-1)


@given(st.integers(1, 60), st.integers(0, 59), st.integers(0, 99))
def test_a_split_parts_all_tasks(num: int, held_out: int, seed: int) -> None:
    tasks = make_tasks(num)
    if held_out >= num:
        with pytest.raises(DataError, match="held out"):
            split(tasks, held_out, seed)
        return
    train, evaluation = split(tasks, held_out, seed)
    assert len(evaluation) == held_out
    assert sorted(t.id for t in (*train, *evaluation)) == sorted(t.id for t in tasks)
    assert split(tasks, held_out, seed) == (train, evaluation)


def test_questions_are_equal_up_to_case_blanks_and_stops_but_not_signs() -> None:
    assert normalised_question("How many  pens,\nTom? ") == normalised_question("how many pens Tom")
    assert normalised_question("What is 3 * 4 + 5?") != normalised_question("What is 3 + 4 * 5?")
    assert normalised_question("x = -1.5") != normalised_question("x = 1.5")


def test_the_first_of_repeated_rows_stays() -> None:
    a, b = Task(id="1", question="Why?", answer="1"), Task(id="2", question="why", answer="2")
    assert without_repeats([a, b]) == [a]


def test_no_held_out_question_is_trained_on_in_any_source(tmp_path: Path) -> None:
    sections = [
        DataSection(name="a", path=write(tmp_path / "a.jsonl", [f"q{i}" for i in range(20)]), held_out=5),
        DataSection(name="b", path=write(tmp_path / "b.jsonl", [f"Q{i}?" for i in range(30)] + ["q1"]), role="train"),
        DataSection(name="c", path=write(tmp_path / "c.jsonl", ["q25", "q3"]), role="eval"),
    ]
    pool = load_pool(sections, seed=0)
    trained = [normalised_question(t.question) for tasks in pool.train.values() for t in tasks]
    held_out = {normalised_question(t.question) for tasks in pool.evaluation.values() for t in tasks}
    assert len(trained) == len(set(trained))
    assert not held_out & set(trained)
    assert pool.num_repeats == {"a": 0, "b": 1, "c": 0}
    assert sum(pool.num_contaminated.values()) + len(trained) == 15 + 30
    assert evaluation_sets(sections, 7).keys() == {"a", "c"}


def test_held_out_rows_do_not_depend_on_the_seed_of_the_run(tmp_path: Path) -> None:
    sections = [DataSection(name="a", path=write(tmp_path / "a.jsonl", [f"q{i}" for i in range(20)]), held_out=5)]
    assert evaluation_sets(sections, 1) == evaluation_sets(sections, 2)


def test_a_source_of_nothing_but_held_out_questions_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ["q1", "q2"])
    with pytest.raises(DataError, match="nothing is left"):
        load_pool(
            [DataSection(name="a", path=path, role="train"), DataSection(name="b", path=path, role="eval")], seed=0
        )
    with pytest.raises(ConfigError, match="two data sources"):
        load_pool([DataSection(name="a", path=path), DataSection(name="a", path=path)], seed=0)
