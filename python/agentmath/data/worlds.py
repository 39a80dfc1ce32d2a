"""Small worlds in which word problems happen: how one begins, what may happen in it, and what is asked at the end.

Every sentence speaks of one present amount, which the next sentence changes. Holes: {a} the first amount, {j} and {k}
the numbers of a sentence, {n} a person and {m} another, {t} things. In a world of a chain of people {n} is the one
spoken of before and {m} the new one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that changes the present amount."""

    change: str
    """"+k", "-k", "*k", "/k", "%k", "//k", "k-", "+j*k" or "-j*k": the calculation, the present amount left out."""
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One kind of story."""

    begins: tuple[str, ...]
    events: tuple[Event, ...]
    asks: tuple[str, ...]
    most: int = 10**12
    """Largest amount that makes sense."""
    is_chain: bool = False
    """Whether each sentence brings a new person."""


WORLDS = (
    World(
        begins=("{n} has {a} {t}.", "At first {n} owns {a} {t}."),
        events=(
            Event(change="+k", texts=("Then {m} gives {n} {k} more.", "{n} finds {k} more of them.")),
            Event(change="-k", texts=("{n} gives {k} of them to {m}.", "Then {k} of them get lost.")),
            Event(change="*k", texts=("Each of them is traded for {k} new {t}.",)),
            Event(change="/k", texts=("{n} shares them equally among {k} people, {n} included, and keeps one share.",)),
            Event(
                change="%k",
                texts=("{n} fills as many bags of {k} as can be filled, gives these away and keeps the rest.",),
            ),
            Event(
                change="//k",
                texts=("For each full set of {k} {n} gets a single one back; what fills no set is thrown away.",),
            ),
            Event(change="+j*k", texts=("{m} brings {j} boxes with {k} {t} in each, and {n} keeps them all.",)),
            Event(change="-j*k", texts=("{n} hands {k} of them to each of {j} children.",)),
        ),
        asks=("How many {t} does {n} have now?", "How many {t} does {n} own in the end?"),
    ),
    World(
        begins=("{n} has {a} dollars.", "There are {a} dollars in {n}'s savings box."),
        events=(
            Event(change="+k", texts=("{n} earns {k} dollars.", "{m} pays {n} back {k} dollars.")),
            Event(change="-k", texts=("{n} spends {k} dollars on a present.", "A repair costs {n} {k} dollars.")),
            Event(change="*k", texts=("A prize makes the money {k} times as much.",)),
            Event(change="/k", texts=("{n} makes {k} equal parts of the money and keeps one of them.",)),
            Event(change="%k", texts=("{n} buys as many tickets at {k} dollars each as the money allows.",)),
            Event(change="+j*k", texts=("{n} works for {j} hours at {k} dollars an hour.",)),
            Event(change="-j*k", texts=("{n} buys {j} books at {k} dollars each.",)),
        ),
        asks=("How many dollars does {n} have now?", "How much money, in dollars, is left?"),
    ),
    World(
        begins=("A tank holds {a} liters of water.", "There are {a} liters of water in a pool."),
        events=(
            Event(change="+k", texts=("Rain adds {k} liters.", "{n} pours in {k} liters.")),
            Event(change="-k", texts=("{k} liters evaporate.", "{n} takes {k} liters out.")),
            Event(change="+j*k", texts=("A pipe brings {k} liters a minute and is open for {j} minutes.",)),
            Event(change="-j*k", texts=("A pump takes out {k} liters an hour and runs for {j} hours.",)),
            Event(
                change="/k",
                texts=("The water is spread evenly over {k} tanks, and from now on one of these is meant.",),
            ),
            Event(
                change="k-",
                texts=("It is emptied and then gets as much water as was missing before to make {k} liters.",),
            ),
        ),
        asks=("How many liters are in it now?", "How many liters of water does it hold at the end?"),
    ),
    World(
        begins=("{n} is {a} years old.",),
        events=(
            Event(change="+k", texts=("{m} is {k} years older than {n}.",)),
            Event(change="-k", texts=("{m} is {k} years younger than {n}.",)),
            Event(change="*k", texts=("{m} is {k} times as old as {n}.",)),
            Event(change="/k", texts=("{n} is {k} times as old as {m}.",)),
            Event(change="k-", texts=("{n} and {m} are {k} years old together.",)),
        ),
        asks=("How old is {n}?",),
        most=110,
        is_chain=True,
    ),
    World(
        begins=("The first number of a list is {a}.", "A list of numbers begins with {a}."),
        events=(
            Event(change="+k", texts=("The next number is {k} more than the one before.",)),
            Event(change="-k", texts=("The next number is {k} less than the one before.",)),
            Event(change="*k", texts=("The next number is {k} times the one before.",)),
            Event(change="/k", texts=("The next number is the one before divided by {k}.",)),
            Event(change="%k", texts=("The next number is the remainder when the one before is divided by {k}.",)),
            Event(change="//k", texts=("The next number is how many whole times {k} fits into the one before.",)),
            Event(change="k-", texts=("The next number and the one before add up to {k}.",)),
        ),
        asks=("What is the last number of the list?",),
    ),
    World(
        begins=("A factory made {a} toys on the first day.", "On the first day {a} toys were made in a factory."),
        events=(
            Event(change="+k", texts=("On the following day it made {k} more than on the day before.",)),
            Event(change="-k", texts=("On the following day it made {k} fewer than on the day before.",)),
            Event(change="*k", texts=("On the following day it made {k} times as many as on the day before.",)),
            Event(change="/k", texts=("On the following day it made as many as on the day before divided by {k}.",)),
            Event(
                change="+j*k",
                texts=(
                    "On the following day {j} new machines made {k} toys each, on top of as many as on the day before.",
                ),
            ),
        ),
        asks=("How many toys did it make on the last day?",),
    ),
)
