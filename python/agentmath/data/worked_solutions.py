"""Worked solutions in GSM8K's form become steps: marks "<<48/2=24>>", and calculations that were left unmarked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from agentmath.data.expressions import Unconvertible, exact_value, num_operations, parse_arithmetic, parse_number
from agentmath.data.programs import Program, Step, steps_program

MARK = re.compile(r"<<([^<>]*)>>")
FINAL = re.compile(r"####\s*(.+)")

_MAX_LINE_CHARS = 2000
_MAX_COMMENT_WORDS = 14
_MAX_UNIT_WORDS = 3
_SIGN_NAMES = str.maketrans(
    {"\u00d7": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-", "\u00b7": "*", "[": "(", "]": ")"}
)
_TOKEN = re.compile(
    r"(?P<number>(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)%?)|(?P<times>[xX](?![A-Za-z'-]))"
    r"|(?P<word>[A-Za-z][A-Za-z'-]*)|(?P<sign>[^\s$])"
)
_NO_UNITS = frozenset(re.findall(r"\w+", "and is are of so or that which because than if then"))
_NOUN = re.compile(r"\s*([a-z]{3,12})\b")
_NO_NOUNS = frozenset(
    re.findall(
        r"\w+",
        "and are for from has have her his how into less more per than that the their them then they this was were "
        "when which while will with each after before because since would total times percent",
    )
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def solution_program(question: str, solution: str, answer: str) -> Program:
    """The program of a worked solution. Raises Unconvertible with the reason."""
    steps = list(solution_steps(solution))
    if not steps:
        raise Unconvertible("no calculation in the solution")
    given = question_numbers(question)
    made: set[Fraction] = set()
    for step in steps:
        if num_operations(step.tree) == 0 and step.value not in given and step.value not in made:
            raise Unconvertible(f"{step.value} is stated and not calculated")
        made.add(step.value)
    return steps_program(steps, answer, given=given)


def solution_steps(solution: str) -> Iterator[Step]:
    """Calculations in order; a mark or line that cannot be read is left out."""
    for line in FINAL.split(solution)[0].splitlines():
        line = line[:_MAX_LINE_CHARS].translate(_SIGN_NAMES)
        position = 0
        for mark in MARK.finditer(line):
            before = line[position : mark.start()]
            after = line[mark.end() :].partition("<<")[0]
            result = _result_length(after)
            yield from _marked_steps(mark.group(1), before, after[result:])
            position = mark.end() + result
        yield from _unmarked_steps(line[position:])


def _marked_steps(mark: str, before: str, after: str) -> Iterator[Step]:
    """One step, or the unmarked one before a mark that only repeats its result: "2 / .25 = <<8=8>>8"."""
    left, _, stated = mark.rpartition("=")
    if left.strip() == stated.strip():
        unmarked = list(_unmarked_steps(f"{before}{stated} {after}"))
        if unmarked:
            yield from unmarked
            return
    try:
        tree = parse_arithmetic(_plain(left))
        step = Step(
            tree=tree, value=exact_value(tree), words=_words(_without_calculation(before), after), noun=_noun(after)
        )
    except Unconvertible:
        return
    yield step


def _unmarked_steps(line: str) -> Iterator[Step]:
    """Calculations in the words of a line, where they come out as written: "she spent 75 - 55 = $20 on tops"."""
    if "=" not in line:
        return
    tokens = _tokens(line)
    for i, token in enumerate(tokens[:-1]):
        if token.text != "=" or tokens[i + 1].kind != "number":
            continue
        start = _calculation_start(tokens, i)
        if start is None:
            continue
        left = "".join(t.text for t in tokens[start:i] if t.kind != "word")
        after = line[tokens[i + 1].end :]
        try:
            tree = parse_arithmetic(_plain(left))
            value = exact_value(tree)
            if num_operations(tree) == 0 or value != parse_number(tokens[i + 1].text):
                continue
        except Unconvertible:
            continue
        words = _words(line[: tokens[start].start], after)
        yield Step(tree=tree, value=value, words=words, noun=_noun(after))


def _tokens(line: str) -> list[_Token]:
    return [_Token(str(m.lastgroup), m.group(), m.start(), m.end()) for m in _TOKEN.finditer(line)]


def _calculation_start(tokens: list[_Token], equals: int) -> int | None:
    """Where the calculation that ends at an equals sign begins; a few words (units) may stand behind its numbers."""
    start = None
    level = num_words = 0
    needs_operand = True
    for i in range(equals - 1, -1, -1):
        token = tokens[i]
        if token.kind == "word":
            num_words += 1
            if num_words > _MAX_UNIT_WORDS or token.text.casefold() in _NO_UNITS:
                break
            continue
        num_words = 0
        if token.kind == "number" and needs_operand:
            needs_operand = False
        elif token.text == ")" and needs_operand:
            level += 1
        elif token.text == "(" and not needs_operand and level > 0:
            level -= 1
        elif (token.kind == "times" or token.text in "+-*/") and not needs_operand:
            needs_operand = True
            continue
        else:
            break
        if level == 0 and not needs_operand:
            start = i
    return start


def _without_calculation(before: str) -> str:
    """The words before a mark, without the calculation that the mark repeats."""
    tokens = _tokens(before)
    if not tokens or tokens[-1].text != "=":
        return before
    start = _calculation_start(tokens, len(tokens) - 1)
    return before[: tokens[-1].start] if start is None else before[: tokens[start].start]


def _plain(text: str) -> str:
    """Arithmetic as people write it, as Python writes it: "$1,000 x 20%" -> "1000 * (20/100)"."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.translate(_SIGN_NAMES).replace("$", ""))
    text = re.sub(r"(?<![A-Za-z])[xX](?![A-Za-z])", "*", text)
    text = re.sub(r"(\d+(?:\.\d+)?|\.\d+)\s*%", r"(\1/100)", text)
    return re.sub(r"(?<=[\d)])\s*(?=\()", "*", text.replace("^", "**"))


def _result_length(after: str) -> int:
    """Length of the result that a line repeats behind its mark."""
    match = re.match(r"\s?\$?[\d,]*\.?\d+%?", after)
    return match.end() if match else 0


def _words(before: str, after: str) -> str:
    """What a line says apart from its calculation, for a comment."""
    text = f"{before.rstrip(' $(')} {after}"
    text = re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]|[<>#=]", " ", text))
    words = text.strip(" .,;:-").split(" ")
    return " ".join(words[:_MAX_COMMENT_WORDS]).rstrip(" .,;:(") if sum(w.isalpha() for w in words) > 1 else ""


def _noun(after: str) -> str:
    match = _NOUN.match(after)
    return match.group(1) if match and match.group(1) not in _NO_NOUNS else ""


def question_numbers(question: str) -> frozenset[Fraction]:
    """Numbers that stand in the question in digits."""
    found: set[Fraction] = set()
    for text in re.findall(r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)%?", question):
        try:
            found.add(parse_number(text))
        except Unconvertible:
            continue
    return frozenset(found)
