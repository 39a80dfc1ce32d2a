"""Problems that are made and not read: clean by construction, as many as are wanted."""

from __future__ import annotations

from agentmath.core.types import Task
from agentmath.data.patterns import Pattern, generate
from agentmath.data.two_step import two_step_patterns


def arithmetic(num: int, digits: int, seed: int) -> list[Task]:
    """num problems of six kinds on numbers of `digits` digits, some of them with small factors.

    All are different, so any split of the list holds a problem on one side only. Task.solution is the calculation, e.g.
    "12*34+5", Task.intermediate its results in order, e.g. ("408", "413"). Raises ConfigError when fewer exist.
    """
    return generate(_arithmetic_patterns(digits), num, f"{seed}/{digits}", prefix="arithmetic")


def two_step(num: int, digits: int, seed: int) -> list[Task]:
    """num short stories that take two operations on numbers of at most `digits` digits; otherwise as arithmetic."""
    return generate(two_step_patterns(digits), num, f"{seed}/{digits}", prefix="two_step")


def _arithmetic_patterns(digits: int) -> list[Pattern]:
    full = range(10 ** (digits - 1) if digits > 1 else 2, 10**digits)
    modulus = range(3, min(100, 10**digits))
    repeat = range(2, min(21, 10**digits))
    return [
        Pattern(texts=("What is {a} * {b} + {c}?",), expression="{a}*{b}+{c}", ranges=(full, full, full)),
        Pattern(
            texts=("{n} fills {a} bags with {b} {t} each and has {c} {t} over. How many {t} in all?",),
            expression="{a}*{b}+{c}",
            ranges=(full, full, full),
        ),
        Pattern(
            texts=("A box held {a} {t}. {b} were taken out, then {c} were put in. How many {t} now?",),
            expression="{a}-{b}+{c}",
            ranges=(full, full, full),
            fits=lambda a, b, c: b <= a,
        ),
        Pattern(
            texts=("What is the remainder of {a} * {b} divided by {c}?",),
            expression="{a}*{b}%{c}",
            ranges=(full, full, modulus),
        ),
        Pattern(
            texts=("{n} buys {a} {t} at {b} cents each, {c} times. How many cents is that?",),
            expression="{a}*{b}*{c}",
            ranges=(full, full, repeat),
        ),
        Pattern(
            texts=("Take {b} from the square of {a}. What is left?",), expression="{a}**2-{b}", ranges=(full, full)
        ),
    ]
