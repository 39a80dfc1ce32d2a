"""Short stories that take two operations, for models that have only seen stories with one."""

from __future__ import annotations

from collections.abc import Callable

from agentmath.data.patterns import Pattern

_STORIES = {
    "{a}+{b}-{c}": (
        "{n} found {a} {t} on Monday and {b} on Tuesday. Later {c} of them got lost. How many {t} are left?",
        "There are {a} red {t} and {b} blue {t} in a drawer. If {c} of them are broken, how many can still be used?",
        "{n} collected {a} {t} and a friend {b}. They gave {c} {t} away. How many do they still have together?",
        "A class made {a} large {t} and {b} small ones. They sold {c} of them at a fair. How many were not sold?",
    ),
    "{a}-{b}+{c}": (
        "A bus carried {a} people. {b} got off and {c} got on. How many people are on the bus now?",
        "{n} had {a} {t}, gave away {b} and then received {c} new ones. How many {t} does {n} have?",
        "A shelf held {a} {t}. After {b} were removed, {c} others were added. How many {t} are on it?",
        "{n} saved {a} dollars, spent {b} on a gift and earned {c} more. How many dollars does {n} have now?",
    ),
    "{a}-{b}-{c}": (
        "{n} had {a} {t}. {b} were used in the morning and {c} in the evening. How many {t} remain?",
        "Of {a} guests, {b} left early and {c} left at noon. How many guests stayed?",
        "{n} wants to read {a} pages, has read {b} this week and {c} last week. How many pages are left to read?",
    ),
    "{a}+{b}+{c}": (
        "{n} picked {a} {t}, then {b}, then {c} more. How many {t} were picked altogether?",
        "A farm has {a} goats, {b} sheep and {c} cows. How many animals does it have?",
    ),
    "({a}+{b})*{c}": (
        "{n} bought {a} small tickets and {b} big tickets. Each ticket cost {c} dollars. How much did {n} pay?",
        "A hall has {a} rows in front and {b} rows behind, and every row has {c} seats. How many seats are there?",
        "{n} packed {a} boxes on Friday and {b} on Saturday with {c} {t} in each. How many {t} were packed?",
        "{n} won {a} rounds at first and {b} rounds later. If each round gives {c} points, what is the score?",
    ),
    "({a}-{b})*{c}": (
        "{n} had {a} bags of {t} and gave {b} bags away. If every bag holds {c} {t}, how many {t} are left?",
        "A job has {a} parts and {b} are done. Each part takes {c} minutes. How many minutes will the rest take?",
        "Of {a} players, {b} stayed at home. Each of the others scored {c} points. How many points were scored?",
        "{n} earns {c} dollars for each washed car. Of {a} cars {b} were not washed. How much did {n} earn?",
    ),
    "{a}*{b}+{c}": (
        "{n} has {a} bags with {b} {t} each and {c} loose {t}. How many {t} is that in all?",
        "Each of {a} tables has {b} chairs and {c} more chairs stand at the wall. How many chairs are there?",
    ),
    "{a}*{b}-{c}": (
        "{n} had {a} packs of {b} {t} and used {c} {t}. How many {t} are left?",
        "A baker made {a} trays with {b} rolls each and sold {c} rolls. How many rolls are left over?",
    ),
    "({a}+{b})/{c}": (
        "There are {a} boys and {b} girls in a club. They form teams of {c}. How many teams are there?",
        "{n} took {a} photos in spring and {b} in summer and put {c} on each page. How many pages were needed?",
        "{n} has {a} red {t} and {b} green {t} and shares them equally among {c} friends. How many does each get?",
        "{n} can carry {c} trays at a time. {a} trays are on one table and {b} on another. How many trips are needed?",
    ),
    "({a}-{b})/{c}": (
        "{n} had {a} {t}, sold {b} and put the rest into boxes of {c}. How many boxes were filled?",
        "{n} had {a} dollars and spent {b}. How many toys at {c} dollars each can {n} still buy?",
        "Of {a} people who were invited, {b} did not come. Each table seats {c}. How many tables are needed?",
        "{n} had {a} photos, lost {b} and put the others into {c} albums in equal numbers. How many are in each album?",
    ),
}


def two_step_patterns(digits: int) -> list[Pattern]:
    """Ten kinds: two of + - * / one after the other. Nothing is taken that is not there, and shares are whole."""
    amount = range(2, 10**digits)
    few = range(2, min(13, 10**digits))
    rules: dict[str, tuple[tuple[range, ...], Callable[[int, int, int], bool]]] = {
        "{a}+{b}-{c}": ((amount, amount, amount), lambda a, b, c: c <= a + b),
        "{a}-{b}+{c}": ((amount, amount, amount), lambda a, b, c: b <= a),
        "{a}-{b}-{c}": ((amount, amount, amount), lambda a, b, c: b + c <= a),
        "{a}+{b}+{c}": ((amount, amount, amount), lambda a, b, c: True),
        "({a}+{b})*{c}": ((few, few, few), lambda a, b, c: True),
        "({a}-{b})*{c}": ((range(3, 20), few, few), lambda a, b, c: b < a),
        "{a}*{b}+{c}": ((few, few, amount), lambda a, b, c: True),
        "{a}*{b}-{c}": ((few, few, amount), lambda a, b, c: c <= a * b),
        "({a}+{b})/{c}": ((amount, amount, few), lambda a, b, c: (a + b) % c == 0),
        "({a}-{b})/{c}": ((amount, amount, few), lambda a, b, c: b < a and (a - b) % c == 0),
    }
    return [
        Pattern(texts=_STORIES[expression], expression=expression, ranges=ranges, fits=fits)
        for expression, (ranges, fits) in rules.items()
    ]
