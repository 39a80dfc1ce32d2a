from __future__ import annotations

import pytest

from agentmath.rewards.clean import clean
from agentmath.rewards.forms import MAX_ITEMS, Form, read, split


def form(text: str) -> Form:
    return read(clean(text))


@pytest.mark.parametrize(
    ("text", "kind", "num_items"),
    [
        ("42", "number", 0),
        ("2,125", "number", 0),
        ("1, 2", "list", 2),
        ("2 and 3", "list", 2),
        (r"\{1\pm\sqrt{5},-2\}", "list", 3),
        (r"1 \pm \sqrt{19}", "list", 2),
        ("(1,2)", "tuple", 2),
        ("[0,1)", "tuple", 2),
        (r"x \in [-2,7]", "tuple", 2),
        ("-793 < a < 10", "tuple", 2),
        ("x > 5", "tuple", 2),
        (r"\{x \mid 2 < x < 3\}", "tuple", 2),
        (r"(2,12) \cup (12,102)", "union", 2),
        ("12:00", "ratio", 2),
        ("a^2+b=0", "equation", 0),
        ("2x < y", "relation", 0),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "matrix", 4),
        (r"\text{Even}", "words", 0),
        ("204_5", "words", 0),
        ("", "words", 0),
    ],
)
def test_an_answer_is_read_as_what_it_is(text: str, kind: str, num_items: int) -> None:
    assert (form(text).kind, len(form(text).items)) == (kind, num_items)


@pytest.mark.parametrize(
    ("text", "name"), [("k=1", "k"), ("f(x)=1", "f(x)"), ("|AB|=1", "|AB|"), ("(p,q)=(3,2)", "(p,q)")]
)
def test_a_named_value_keeps_its_name(text: str, name: str) -> None:
    assert form(text).name == name


@pytest.mark.parametrize("text", ["7 = 11a+c", "x+z=1", "a^2 + b = 0"])
def test_an_equation_between_expressions_is_not_a_named_value(text: str) -> None:
    assert form(text).kind == "equation" and form(text).name == ""


def test_a_chain_of_numbers_ends_in_its_value() -> None:
    assert form("5+5+1 = 7 = 11").text == "11"


def test_a_relation_keeps_its_brackets() -> None:
    assert form(r"-2 \le x < 7").sign == "[)"
    assert form("x < 1").sign == "()"
    assert form(r"5 \geq x").sign == "(]"


def test_a_split_respects_brackets() -> None:
    assert split("(1,2),{3,4},5", ",") == ["(1,2)", "{3,4}", "5"]
    assert split(",,", ",") == []


def test_endless_lists_are_cut() -> None:
    assert len(form(", ".join("1" * 3 for _ in range(400))).items) == MAX_ITEMS + 1
