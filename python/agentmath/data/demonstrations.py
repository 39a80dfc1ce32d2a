r"""Worked examples for supervised training, written in a dialect; here in agentmath's.

    with the tool   <think>Subtract 25 from 76.</think><code>print(76 - 25)</code>   and then   \boxed{51}
    without         <think>I can do this in my head.</think>\boxed{51}

The programs come from the tasks' own solutions: an expression, or worked calculations. They are not run here.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Sequence

from agentmath.core.errors import DataError
from agentmath.core.types import Demonstration, Task
from agentmath.data.expressions import Unconvertible, parse_arithmetic
from agentmath.data.programs import Program, expression_program
from agentmath.data.worked_solutions import FINAL, MARK, solution_program
from agentmath.formats import agentmath
from agentmath.formats.dialect import Dialect

USE_TOOL = "I will compute it with code."
USE_HEAD = "I can do this in my head."

_MAX_THINK_WORDS = 30


def demonstrations(
    tasks: Sequence[Task],
    *,
    tool_share: float,
    seed: int,
    explain: bool = False,
    dialect: Dialect = agentmath.DIALECT,
) -> list[Demonstration]:
    """One demonstration a task in an order drawn by the seed; tasks whose solution gives no program are left out.

    Exactly round(tool_share * n) of them use the tool. With explain the think section says what is to be done, else it
    is one of two fixed sentences, which is all that a model without a language of its own can use. Raises DataError
    when no task is left.
    """
    order = list(range(len(tasks)))
    random.Random(f"demonstrations/{seed}").shuffle(order)
    found: list[tuple[Task, Program | None]] = []
    for i in order:
        program = program_of(tasks[i]) if tool_share > 0 else None
        if program is not None or tool_share == 0:
            found.append((tasks[i], program))
    if not found:
        raise DataError(
            f"none of {len(tasks)} training tasks has a solution that gives a program: use sources of kind svamp, "
            "gsm8k, arithmetic or two_step, or give sft.path a file of demonstrations"
        )
    num_tool = round(tool_share * len(found))
    uses_tool = [i < num_tool for i in range(len(found))]
    random.Random(f"tool/{seed}").shuffle(uses_tool)
    return [
        _with_tool(task, program, dialect, explain=explain) if use and program else _without_tool(task, dialect)
        for (task, program), use in zip(found, uses_tool, strict=True)
    ]


def program_of(task: Task) -> Program | None:
    """The program that the task's solution amounts to, None when it has none that gives the answer."""
    if task.solution is None:
        return None
    try:
        if _is_worked(task.solution):
            return solution_program(task.question, task.solution, task.answer)
        return expression_program(task.solution, task.answer)
    except Unconvertible:
        return None


def _is_worked(solution: str) -> bool:
    return MARK.search(solution) is not None or FINAL.search(solution) is not None


def _with_tool(task: Task, program: Program, dialect: Dialect, *, explain: bool) -> Demonstration:
    think = _explanation(task) if explain else USE_TOOL
    first = dialect.write_call(think, program.source)
    return Demonstration(task=task, turns=(first, dialect.write_answer("", program.printed)))


def _without_tool(task: Task, dialect: Dialect) -> Demonstration:
    return Demonstration(task=task, turns=(dialect.write_answer(USE_HEAD, task.answer),))


def _explanation(task: Task) -> str:
    """What is asked, for worked solutions, whose programs have comments; else what is to be done, in words."""
    assert task.solution is not None
    if _is_worked(task.solution):
        sentences = re.split(r"(?<=[.?!])\s+", task.question.strip())
        asked = next((s for s in reversed(sentences) if s.endswith("?")), sentences[-1])
        words = re.sub(r"[<>\\]", " ", asked).split()
        return " ".join(words[-_MAX_THINK_WORDS:])
    tree = parse_arithmetic(task.solution)
    spoken = _spoken(tree)
    return f"{spoken[0].upper()}{spoken[1:]}."


def _spoken(tree: ast.expr) -> str:
    """A calculation in words: "add 3 and 4, then divide by 7"."""
    if not isinstance(tree, ast.BinOp):
        return f"take {ast.unparse(tree)}"
    sides = [ast.unparse(side) for side in (tree.left, tree.right)]
    if isinstance(tree.left, ast.BinOp) and not isinstance(tree.right, ast.BinOp):
        return f"{_spoken(tree.left)}, then {_THEN.get(type(tree.op), 'go on with')} {sides[1]}"
    if isinstance(tree.right, ast.BinOp) and not isinstance(tree.left, ast.BinOp):
        return f"{_spoken(tree.right)}, then {_FROM.get(type(tree.op), 'go on with')} {sides[0]}"
    if isinstance(tree.left, ast.BinOp):
        return f"compute {ast.unparse(tree)}"
    pattern = _WORDS.get(type(tree.op))
    return pattern.format(*sides) if pattern else f"compute {ast.unparse(tree)}"


_WORDS: dict[type[ast.operator], str] = {
    ast.Add: "add {0} and {1}",
    ast.Sub: "subtract {1} from {0}",
    ast.Mult: "multiply {0} by {1}",
    ast.Div: "divide {0} by {1}",
}
_THEN: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply by",
    ast.Div: "divide by",
    ast.Mod: "take the remainder by",
}
_FROM: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract from",
    ast.Mult: "multiply by",
    ast.Div: "divide into",
}
