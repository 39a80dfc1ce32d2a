from __future__ import annotations

import sys

import pytest

from agentmath.config.data import DataSection
from agentmath.core.errors import ConfigError
from agentmath.data.gym import DATASETS, gym_tasks
from agentmath.data.sources import load_source


@pytest.fixture(scope="module")
def library() -> None:
    pytest.importorskip("reasoning_gym", reason="the reasoning-gym library is not installed: agentmath[gym]")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("dataset", DATASETS)
def test_questions_have_one_short_answer_with_a_number_in_it(dataset: str) -> None:
    tasks = gym_tasks(dataset, 8, 3)
    assert len({t.id for t in tasks}) == 8
    assert all(t.question and len(t.answer) < 60 and any(sign.isdigit() for sign in t.answer) for t in tasks)
    assert gym_tasks(dataset, 8, 3) == tasks


@pytest.mark.usefixtures("library")
def test_a_recipe_draws_from_it_like_from_any_source() -> None:
    section = DataSection(name="g", kind="reasoning_gym", dataset="chain_sum", max_tasks=20)
    first, second = load_source(section, seed=1), load_source(section, seed=2**40)
    assert {t.source for t in first.tasks} == {"g"}
    assert len(first.tasks) == 20
    assert [t.question for t in first.tasks] != [t.question for t in second.tasks]


def test_other_datasets_and_slips_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"no dataset 'chainsum' whose answers can be compared; did you mean chain_sum"
    ):
        gym_tasks("chainsum", 3, 0)
    with pytest.raises(ConfigError, match="'sudoku' whose answers can be compared; there are aiw"):
        gym_tasks("sudoku", 3, 0)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ConfigError, match=r"pip install 'agentmath\[gym\]'"):
        gym_tasks("chain_sum", 3, 0)
