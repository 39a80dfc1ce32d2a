r"""Plain numbers, exactly: 7, -2.50, 3/4, \frac{3}{4}, 2\frac{1}{2}, 1.2*10^{-4}, 3e8; none with work left in it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from agentmath.config.grading import GradingSection

MAX_DIGITS = 2000
"""A longer number is compared letter by letter."""

_MAX_EXPONENT = 2000
_FEWEST_ROUNDED_DIGITS = 3
_NOISE = 1e-9
"""What floating point arithmetic may add to a decimal: two decimals that differ by more are two numbers."""
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?:"
    r"(?P<whole>[0-9]+)?(?:\\frac(?:\{(?P<a>[-+]?[0-9]+)\}|(?P<c>[0-9]))(?:\{(?P<b>[-+]?[0-9]+)\}|(?P<d>[0-9])))"
    r"|(?P<top>[0-9]+)/(?P<bottom>[0-9]+)"
    r"|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<e>[-+]?[0-9]{1,4})|\*10(?:\^|\*\*)(?P<p>\{[-+]?[0-9]{1,4}\}|[-+]?[0-9]{1,4}))?"
    r"|10(?:\^|\*\*)(?P<q>\{[-+]?[0-9]{1,4}\}|[-+]?[0-9]{1,4})"
    r")"
)
"""Every digit can be matched in one way only, so that a match takes linear time."""

_COMMA = re.compile(r"([-+]?[0-9]+),([0-9]+)")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+")


@dataclass(frozen=True, slots=True)
class Plain:
    """A number as it was written."""

    value: Fraction
    places: int | None = None
    """Digits behind the decimal point; None without a point or an exponent."""
    is_reduced: bool = True
    """False for 2/4."""


def plain_number(letters: str) -> Plain | None:
    """The number that canonical text says; None when it says more or less than one plain number."""
    if len(letters) > MAX_DIGITS or (match := _NUMBER.fullmatch(letters)) is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["top"]:
        return _fraction(sign, 0, int(match["top"]), int(match["bottom"]))
    if (top := match["a"] or match["c"]) is not None:
        return _fraction(
            sign, int(match["whole"] or 0), int(top), int(match["b"] or match["d"]), is_mixed=bool(match["whole"])
        )
    exponent = int((match["e"] or match["p"] or match["q"] or "0").strip("{}"))
    if abs(exponent) > _MAX_EXPONENT:
        return None
    digits = match["decimal"] or "1"
    has_point = "." in digits or match["e"] is not None or (exponent < 0)
    places = len(digits.partition(".")[2]) - exponent
    value = Fraction(match["sign"] + digits)
    return Plain(value * Fraction(10) ** exponent if exponent else value, places if has_point else None)


def _fraction(sign: int, whole: int, top: int, bottom: int, *, is_mixed: bool = False) -> Plain | None:
    if bottom == 0 or (is_mixed and not 0 < top < bottom):
        return None
    return Plain(sign * (whole + Fraction(top, bottom)), is_reduced=math.gcd(top, bottom) == 1 and bottom > 0)


def same_number(gold: Plain, prediction: Plain, section: GradingSection) -> bool:
    """Equal; or a decimal that equals a fraction nearly enough, neither being a whole number; or gold is rounded."""
    a, b = gold.value, prediction.value
    if not (prediction.is_reduced or section.accept_unreduced):
        return False
    if a == b:
        return True
    error = rounding_error(gold) if section.accept_rounded_gold and prediction.places is None else None
    if error is not None and abs(a - b) <= error:
        return True
    if (gold.places is None and prediction.places is None) or a.denominator == 1 or b.denominator == 1:
        return False
    is_noise = gold.places is not None and prediction.places is not None
    tolerance = min(section.decimal_tolerance, _NOISE) if is_noise else section.decimal_tolerance
    return abs(a - b) <= Fraction(tolerance) * max(abs(a), abs(b))


def rounding_error(gold: Plain) -> Fraction | None:
    """How far a value may be from gold and still be gold when rounded; None where gold does not look rounded.

    A decimal of three significant digits looks so, 0.5 does not.
    """
    if (
        gold.places is None
        or gold.places <= 0
        or abs(gold.value) * 10**gold.places < 10 ** (_FEWEST_ROUNDED_DIGITS - 1)
    ):
        return None
    return Fraction(1, 2 * 10**gold.places)


def join_decimal_comma(text: str) -> str:
    """A comma as decimal point: 1000,99 but not 1,000."""
    match = _COMMA.fullmatch(text)
    return text if match is None or _THOUSANDS.fullmatch(text) else f"{match[1]}.{match[2]}"


def _number_words() -> dict[str, int]:
    small = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    units = (small + "seventeen eighteen nineteen").split()
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    words = {word: n for n, word in enumerate(units)} | {"hundred": 100, "thousand": 1000, "million": 10**6}
    for n, ten in enumerate(tens, 2):
        words[ten] = 10 * n
        words |= {f"{ten}{dash}{unit}": 10 * n + k for k, unit in enumerate(units[1:10], 1) for dash in ("", "-")}
    return words


NUMBER_WORDS = _number_words()
"""Words of letters without blanks, as canonical text has them: twenty-one and twentyone."""
