"""Programs out of calculations: the code of a demonstration, and what it will print."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agentmath.data.expressions import (
    Unconvertible,
    exact_value,
    num_operations,
    parse_arithmetic,
    parse_number,
    program_value,
    whole_divisions,
)

_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_MAX_DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One calculation of a worked solution."""

    tree: ast.expr
    value: Fraction
    """What it gives, exactly."""
    words: str = ""
    """What it is about, for a comment; empty for none."""
    noun: str = ""
    """What the result counts, to name it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and what it prints, as computed here by Python's rules for numbers; the sandbox has the last word."""

    source: str
    printed: str


def expression_program(text: str, answer: str) -> Program:
    """print(EXPRESSION) for a calculation such as "12*34+5" or "( 76.0 - 25.0 )". Raises Unconvertible."""
    tree = parse_arithmetic(text)
    if num_operations(tree) == 0:
        raise Unconvertible(f"{text!r} calculates nothing")
    tree = whole_divisions(tree, {})
    source = text if text == _without_blanks(ast.unparse(tree)) else ast.unparse(tree)
    return _last_print([], source, program_value(tree, {}), parse_number(answer))


def steps_program(steps: Sequence[Step], answer: str, *, given: Collection[Fraction] = ()) -> Program:
    """One commented assignment a step, the last step printed. Raises Unconvertible when it would not print the answer.

    A number that an earlier step gave is written as that step's name. One that the question gives too is taken to be
    the question's, unless the step right before gave it.
    """
    lines: list[str] = []
    names: dict[str, int | float] = {}
    known: dict[Fraction, list[str]] = {}
    for step in steps[:-1]:
        tree = whole_divisions(_with_names(step.tree, known, given), names)
        known = {value: found for value, found in known.items() if value not in given}
        name = _name(step.noun, names)
        if name is None:
            raise Unconvertible("more steps than letters")
        names[name] = program_value(tree, names)
        known.setdefault(step.value, []).append(name)
        lines += [f"# {step.words}"] if step.words else []
        lines.append(f"{name} = {ast.unparse(tree)}")
    last = steps[-1]
    tree = whole_divisions(_with_names(last.tree, known, given), names)
    lines += [f"# {last.words}"] if last.words else []
    return _last_print(lines, ast.unparse(tree), program_value(tree, names), parse_number(answer))


def _last_print(lines: list[str], source: str, value: int | float, gold: Fraction) -> Program:
    """print(...) that shows the answer; a float with a rounding error or a needless .0 is rounded in the program."""
    printed = str(value)
    if isinstance(value, float):
        decimals = _decimals(gold)
        shortened = round(value, decimals) if decimals else round(value)
        if printed.endswith(".0") or "e" in printed or Fraction(printed) != gold:
            source = f"round({source}, {decimals})" if decimals else f"round({source})"
            printed = str(shortened)
    if "e" in printed or "n" in printed or Fraction(printed) != gold or abs(Fraction(value) - gold) > abs(gold) / 10**6:
        raise Unconvertible(f"it would print {printed}, the answer is {gold}")
    return Program(source="\n".join([*lines, f"print({source})"]), printed=printed)


def _decimals(value: Fraction) -> int:
    return next((d for d in range(_MAX_DECIMALS + 1) if (value * 10**d).denominator == 1), _MAX_DECIMALS)


def _with_names(tree: ast.expr, known: Mapping[Fraction, Sequence[str]], given: Collection[Fraction]) -> ast.expr:
    """The tree with earlier results written as names.

    The latest name of a value is used, or one each for a value that occurs twice; where the question gives that value
    too, the occurrences left over are the question's.
    """
    values = [exact_value(node) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    left = {value: list(known[value])[-values.count(value) :] for value in values if value in known}

    def renamed(node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant):
            value = exact_value(node)
            names = left.get(value)
            if not names:
                return node
            return ast.Name(names.pop(0) if len(names) > 1 or value in given else names[0], ast.Load())
        if isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, renamed(node.operand))
        assert isinstance(node, ast.BinOp)
        first = renamed(node.left)
        return ast.BinOp(first, node.op, renamed(node.right))

    return renamed(tree)


def _name(noun: str, taken: dict[str, int | float]) -> str | None:
    usable = noun.isidentifier() and noun.isascii() and not keyword.iskeyword(noun) and not hasattr(builtins, noun)
    if usable and noun not in taken:
        return noun
    return next((letter for letter in _LETTERS if letter not in taken), None)


def _without_blanks(text: str) -> str:
    return text.replace(" ", "")
