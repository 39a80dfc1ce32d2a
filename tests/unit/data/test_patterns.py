from __future__ import annotations

import pytest

from agentmath.core.errors import ConfigError
from agentmath.data.patterns import Pattern, generate

SMALL = Pattern(
    texts=("{n}: {a} minus {b}?",), expression="{a}-{b}", ranges=(range(1, 4), range(1, 4)), fits=lambda a, b: b <= a
)
LARGE = Pattern(texts=("{a} plus {b}?", "{t}: {a} and {b}?"), expression="{a}+{b}", ranges=(range(1000), range(1000)))


def test_numbers_fit_and_differ() -> None:
    tasks = generate([SMALL], 6, "0", prefix="small")
    assert {t.solution for t in tasks} == {"1-1", "2-1", "2-2", "3-1", "3-2", "3-3"}


def test_a_kind_that_is_used_up_leaves_the_rest_to_the_others() -> None:
    tasks = generate([SMALL, LARGE], 100, "0", prefix="mixed")
    assert len({t.solution for t in tasks}) == 100
    assert sum("-" in (t.solution or "") for t in tasks) == 6


def test_more_problems_than_exist_are_refused_with_their_number() -> None:
    with pytest.raises(ConfigError, match="7 small problems were asked for, only 6"):
        generate([SMALL], 7, "0", prefix="small")


def test_equal_seeds_give_equal_problems_and_others_do_not() -> None:
    def make(seed: str) -> list[str]:
        return [t.question for t in generate([LARGE], 50, seed, prefix="large")]

    assert make("1") == make("1")
    assert make("1") != make("2")
