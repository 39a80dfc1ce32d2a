"""Short stories that take two operations, for models that have only seen stories with one."""

from __future__ import annotations

from agentmath.data.patterns import Pattern


def two_step_patterns(digits: int) -> list[Pattern]:
    """Ten kinds: every way in which two of + - * / follow each other in everyday stories."""
    amount = range(2, 10**digits)
    few = range(2, min(13, 10**digits))
    return [*_sums(amount, few), *_products(amount, few), *_shares(amount, few)]


def _sums(amount: range, few: range) -> list[Pattern]:
    return [
        Pattern(
            texts=(
                "{name} found {a} {things} on Monday and {b} on Tuesday. Later {c} of them got lost. How many {things} are left?",
                "There are {a} red {things} and {b} blue {things} in a drawer. If {c} of the {things} are broken, how many can still be used?",
                "{name} collected {a} {things} and a friend collected {b}. They gave {c} {things} away. How many do they still have together?",
                "A class made {a} large {things} and {b} small ones. They sold {c} of them at a fair. How many were not sold?",
            ),
            expression="{a}+{b}-{c}",
            ranges=(amount, amount, amount),
            fits=lambda a, b, c: c <= a + b,
        ),
        Pattern(
            texts=(
                "A bus carried {a} people. {b} got off and {c} got on. How many people are on the bus now?",
                "{name} had {a} {things}, gave away {b} and then received {c} new ones. How many {things} does {name} have?",
                "A shelf held {a} {things}. After {b} were removed, {c} others were added. How many {things} are on it?",
                "{name} saved {a} dollars, spent {b} of them on a gift and earned {c} more. How many dollars does {name} have now?",
            ),
            expression="{a}-{b}+{c}",
            ranges=(amount, amount, amount),
            fits=lambda a, b, c: b <= a,
        ),
        Pattern(
            texts=(
                "{name} had {a} {things}. {b} were used in the morning and {c} in the evening. How many {things} remain?",
                "Of {a} guests, {b} left early and {c} left at noon. How many guests stayed?",
                "{name} wants to read {a} pages, has read {b} this week and {c} last week. How many pages are still to read?",
            ),
            expression="{a}-{b}-{c}",
            ranges=(amount, amount, amount),
            fits=lambda a, b, c: b + c <= a,
        ),
        Pattern(
            texts=(
                "{name} picked {a} {things}, then {b}, then {c} more. How many {things} were picked altogether?",
                "A farm has {a} goats, {b} sheep and {c} cows. How many animals does it have?",
            ),
            expression="{a}+{b}+{c}",
            ranges=(amount, amount, amount),
        ),
    ]


def _products(amount: range, few: range) -> list[Pattern]:
    return [
        Pattern(
            texts=(
                "{name} bought {a} small tickets and {b} big tickets. Each ticket cost {c} dollars. How much did {name} pay?",
                "A hall has {a} rows in front and {b} rows behind, and every row has {c} seats. How many seats are there?",
                "{name} packed {a} boxes on Friday and {b} boxes on Saturday with {c} {things} in each box. How many {things} were packed?",
                "In a game {name} won {a} rounds at first and {b} rounds later. If each round gives {c} points, what is the score?",
            ),
            expression="({a}+{b})*{c}",
            ranges=(few, few, few),
        ),
        Pattern(
            texts=(
                "{name} had {a} bags of {things} and gave {b} bags away. If every bag holds {c} {things}, how many {things} are left?",
                "A job has {a} parts and {b} are done. Each part takes {c} minutes. How many minutes will the rest take?",
                "Of {a} players, {b} stayed at home. Each of the others scored {c} points. How many points were scored?",
                "{name} earns {c} dollars for each washed car. There were {a} cars, but {b} were not washed. How much did {name} earn?",
            ),
            expression="({a}-{b})*{c}",
            ranges=(range(3, 20), few, few),
            fits=lambda a, b, c: b < a,
        ),
        Pattern(
            texts=(
                "{name} has {a} bags with {b} {things} each and {c} loose {things}. How many {things} is that in all?",
                "Each of {a} tables has {b} chairs and {c} more chairs stand at the wall. How many chairs are there?",
            ),
            expression="{a}*{b}+{c}",
            ranges=(few, few, amount),
        ),
        Pattern(
            texts=(
                "{name} had {a} packs of {b} {things} and used {c} {things}. How many {things} are left?",
                "A baker made {a} trays with {b} rolls each and sold {c} rolls. How many rolls are left over?",
            ),
            expression="{a}*{b}-{c}",
            ranges=(few, few, amount),
            fits=lambda a, b, c: c <= a * b,
        ),
    ]


def _shares(amount: range, few: range) -> list[Pattern]:
    return [
        Pattern(
            texts=(
                "There are {a} boys and {b} girls in a club. They form teams of {c}. How many teams are there?",
                "{name} took {a} photos in spring and {b} in summer and put {c} of them on each page. How many pages were needed?",
                "{name} has {a} red {things} and {b} green {things} and shares them equally among {c} friends. How many does each friend get?",
                "{name} can carry {c} trays at a time. There are {a} trays on one table and {b} on another. How many trips are needed?",
            ),
            expression="({a}+{b})/{c}",
            ranges=(amount, amount, few),
            fits=lambda a, b, c: (a + b) % c == 0,
        ),
        Pattern(
            texts=(
                "{name} had {a} {things}, sold {b} and put the rest into boxes of {c}. How many boxes were filled?",
                "{name} had {a} dollars and spent {b}. How many toys at {c} dollars each can {name} still buy?",
                "Of {a} people who were invited, {b} did not come. Each table seats {c}. How many tables are needed?",
                "{name} washed {a} shirts. {b} dried inside, the others were hung on {c} lines in equal numbers. How many shirts hung on each line?",
            ),
            expression="({a}-{b})/{c}",
            ranges=(amount, amount, few),
            fits=lambda a, b, c: b < a and (a - b) % c == 0,
        ),
    ]
