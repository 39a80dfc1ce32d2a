from __future__ import annotations

import pytest

from agentmath.rewards.clean import clean
from agentmath.rewards.units import Stripped, strip_unit


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("$18", Stripped("18", "dollar")),
        (r"-\$5", Stripped("-5", "dollar")),
        ("18 dollars", Stripped("18", "dollar")),
        ("5\u20ac", Stripped("5", "euro")),
        (r"28\%", Stripped("28", "percent")),
        ("28 percent", Stripped("28", "percent")),
        (r"90^\circ", Stripped("90", "degree")),
        ("90 degrees", Stripped("90", "degree")),
        (r"15\mbox{ cm}^2", Stripped("15", "cm^2")),
        ("15m\u00b2", Stripped("15", "m^2")),
        ("245 yd.", Stripped("245", "yd")),
        ("60 km/h", Stripped("60", "km / hr")),
        ("3 inches", Stripped("3", "in")),
        ("5 million", Stripped("5", "", 1_000_000)),
        ("5 million dollars", Stripped("5", "dollar", 1_000_000)),
    ],
)
def test_what_stands_round_a_number_is_told_apart(text: str, stripped: Stripped) -> None:
    assert strip_unit(clean(text)) == stripped


@pytest.mark.parametrize(
    "text",
    ["5x", "2ab", "5a", "3k+2m", "2 and 3", "5 less", "5 squared", "42 is wrong", "even", "x m", r"2\pi", "5 not"],
)
def test_letters_that_are_factors_or_words_are_no_units(text: str) -> None:
    assert strip_unit(clean(text)) == Stripped(clean(text))
