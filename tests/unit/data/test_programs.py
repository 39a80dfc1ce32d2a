from __future__ import annotations

import contextlib
import io
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmath.data.expressions import Unconvertible, exact_value, number_text, parse_arithmetic
from agentmath.data.programs import Step, expression_program, steps_program


def step(text: str, words: str = "", noun: str = "") -> Step:
    tree = parse_arithmetic(text)
    return Step(tree=tree, value=exact_value(tree), words=words, noun=noun)


def printed(source: str) -> str:
    """What Python prints; only for programs that were made here from whole numbers."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "program", "exec"), {"__builtins__": {"print": print, "round": round}})
    return out.getvalue().rstrip("\n")


def test_an_expression_is_printed_in_the_shortest_form() -> None:
    assert expression_program("( 76.0 - 25.0 )", "51").source == "print(76 - 25)"
    assert expression_program("12*34+5", "413").source == "print(12*34+5)"
    assert expression_program("( ( 8.0 + 2.0 ) * 3.0 )", "30").source == "print((8 + 2) * 3)"


def test_what_is_printed_is_the_answer_and_not_a_float_of_it() -> None:
    assert expression_program("48 / 2", "24").source == "print(48 // 2)"
    assert expression_program("7 / 2", "3.5").source == "print(7 / 2)"
    assert expression_program("0.1 * 3", "0.3").source == "print(round(0.1 * 3, 1))"
    assert expression_program("0.5 * 4", "2").source == "print(round(0.5 * 4))"


@pytest.mark.parametrize(
    ("text", "answer"), [("8.0", "8"), ("1 + 1", "3"), ("1/3", "0.33"), ("x", "1"), ("1+1", "two")]
)
def test_a_program_that_would_not_print_the_answer_is_refused(text: str, answer: str) -> None:
    with pytest.raises(Unconvertible):
        expression_program(text, answer)


def test_steps_become_commented_assignments_that_use_each_other() -> None:
    steps = [step("48/2", "Natalia sold clips in May", "clips"), step("48+24", "Natalia sold clips altogether")]
    program = steps_program(steps, "72", given={Fraction(48)})
    assert program.source == (
        "# Natalia sold clips in May\nclips = 48 // 2\n# Natalia sold clips altogether\nprint(48 + clips)"
    )
    assert (program.printed, printed(program.source)) == ("72", "72")


def test_letters_name_what_has_no_usable_noun() -> None:
    steps = [
        step("1+1", noun="print"),
        step("2+2", noun="for"),
        step("4+4", noun="eggs"),
        step("8+8", noun="eggs"),
        step("16+16"),
    ]
    lines = steps_program(steps, "32").source.splitlines()
    assert [line.split(" = ")[0] for line in lines[:-1]] == ["a", "b", "eggs", "c"]
    assert lines[-1] == "print(c + c)"


def test_a_number_of_the_question_stays_a_number_unless_the_step_before_gave_it() -> None:
    steps = [step("2+2"), step("3+3"), step("4*6")]
    assert steps_program(steps, "24").source.endswith("print(a * b)")
    assert steps_program(steps, "24", given={Fraction(4)}).source.endswith("print(4 * b)")
    twice = [step("1+2+5"), step("8/8")]
    assert steps_program(twice, "1", given={Fraction(8)}).source.endswith("print(a // 8)")


def test_one_value_of_two_steps_is_used_by_both_names() -> None:
    assert steps_program([step("5+5"), step("25-15"), step("10+10")], "20").source.endswith("print(a + b)")


@given(
    st.recursive(
        st.integers(1, 99).map(str),
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({''.join(t)})"),
        max_leaves=6,
    )
)
def test_a_program_prints_what_is_said_of_it(text: str) -> None:
    answer = number_text(exact_value(parse_arithmetic(text)))
    try:
        program = expression_program(text, answer)
    except Unconvertible:
        assert not any(sign in text[1:] for sign in "+-*")
        return
    assert printed(program.source) == program.printed == answer
