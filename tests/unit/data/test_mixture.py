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
from agentmath.data.mixture import TaskStream, load_pool, split
from agentmath.data.repeats import normalised_question


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
    assert {name: counts.repeats for name, counts in pool.counts.items()} == {"a": 0, "b": 1, "c": 0}
    assert sum(pool.num_contaminated.values()) + len(trained) == 15 + 30
    assert pool.evaluation.keys() == {"a", "c"}


def test_held_out_rows_do_not_depend_on_the_seed_of_the_run(tmp_path: Path) -> None:
    sections = [DataSection(name="a", path=write(tmp_path / "a.jsonl", [f"q{i}" for i in range(20)]), held_out=5)]
    assert load_pool(sections, seed=1).evaluation == load_pool(sections, seed=2).evaluation


def test_a_repeat_that_is_kept_is_never_on_both_sides(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [f"q{i % 10}" for i in range(30)])
    pool = load_pool([DataSection(name="a", path=path, held_out=3, repeats="keep")], seed=0)
    held_out = {t.question for t in pool.evaluation["a"]}
    trained = [t.question for t in pool.train["a"]]
    assert not held_out & set(trained)
    assert len(trained) == 3 * len(set(trained)) == 3 * (10 - len(held_out))
    assert pool.num_contaminated["a"] == 30 - 3 - len(trained)


def test_what_was_left_out_is_told_once_for_each_source(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "q", "answer": 1}\n{"question": "r", "answer": 2}\n{\n')
    (tmp_path / "b.jsonl").write_text("".join(f'{{"question": "s{i % 3}", "answer": {i // 4}}}\n' for i in range(6)))
    sections = [
        DataSection(name="a", path=str(tmp_path / "a.jsonl"), bad_rows="skip"),
        DataSection(name="b", path=str(tmp_path / "b.jsonl")),
    ]
    bad, conflicting = load_pool(sections, seed=0).warnings
    assert bad.startswith("data.a: 1 of 3 rows cannot be used and are left out (1 not JSON): ")
    assert "a.jsonl, line 3: not JSON" in bad
    assert conflicting.startswith("data.b: 4 rows ask questions that stand there with different answers")


@given(sizes, st.integers(0, 99), st.integers(1, 4))
def test_an_epoch_of_a_source_is_an_order_of_all_its_tasks(lengths: list[int], seed: int, num_epochs: int) -> None:
    """Whatever the weights are: what a source gave so far is whole epochs and the beginning of one more."""
    stream = stream_of(lengths, [0.5 + i for i in range(len(lengths))], seed)
    given_out: dict[str, list[str]] = {}
    for i in range(sum(lengths) * num_epochs):
        task = stream.task_at(i)
        given_out.setdefault(task.source, []).append(task.id)
    for name, ids in given_out.items():
        size = lengths[int(name[1:])]
        for begin in range(0, len(ids), size):
            epoch = ids[begin : begin + size]
            assert len(set(epoch)) == len(epoch)


@given(sizes, st.integers(0, 99), st.integers(0, 50))
def test_only_the_ratio_of_weights_counts(lengths: list[int], seed: int, ordinal: int) -> None:
    weights = [1.0 + i for i in range(len(lengths))]
    doubled = stream_of(lengths, [2 * w for w in weights], seed)
    assert doubled.task_at(ordinal) == stream_of(lengths, weights, seed).task_at(ordinal)


def test_a_source_of_nothing_but_held_out_questions_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ["q1", "q2"])
    with pytest.raises(DataError, match="nothing is left"):
        load_pool(
            [DataSection(name="a", path=path, role="train"), DataSection(name="b", path=path, role="eval")], seed=0
        )
    with pytest.raises(ConfigError, match="two data sources"):
        load_pool([DataSection(name="a", path=path), DataSection(name="a", path=path)], seed=0)
