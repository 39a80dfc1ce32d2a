"""Whether two answers, taken apart, say the same."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from agentmath.config.grading import GradingSection
from agentmath.rewards import symbolic
from agentmath.rewards.expressions import Expression, Unreadable, read_expression, scaled
from agentmath.rewards.forms import MAX_ITEMS, Form
from agentmath.rewards.numbers import NUMBER_WORDS, same_number

_LETTERS = re.compile("[A-Za-z]{2,4}")


class NeedsLibrary(Exception):
    """Plain numbers and letters do not decide."""


class Comparison:
    """One verdict and which rule decided.

    Without the library a comparison takes linear time, and NeedsLibrary is raised where that is not enough.
    """

    def __init__(self, section: GradingSection, *, with_library: bool) -> None:
        self.rule = "different"
        self.reason = ""
        self._section = section
        self._with_library = with_library

    def equal(self, gold: Form, prediction: Form) -> bool:
        """True when the prediction says what gold says; sets rule and reason."""
        self.rule = gold.kind
        equal = self._same(gold, prediction)
        if not self.reason:
            self.reason = f"compared as {gold.kind} and {prediction.kind}"
        return equal

    def _same(self, gold: Form, prediction: Form) -> bool:
        if gold.name and prediction.name and gold.name != prediction.name:
            return self._is_multiple(gold.named_node, prediction.named_node)
        if self._section.accept_number_words:
            gold, prediction = _worded(gold), _worded(prediction)
        kinds = (gold.kind, prediction.kind)
        if "equation" in kinds:
            sides = [f.node if f.kind == "equation" else f.named_node for f in (gold, prediction)]
            return gold.text == prediction.text or self._is_multiple(sides[0], sides[1])
        if "list" in kinds:
            members = [f.items if f.kind == "list" else (f,) for f in (gold, prediction)]
            return self._same_members(members[0], members[1])
        if set(kinds) == {"relation", "tuple"}:
            relations = [_as_relation(f) for f in (gold, prediction)]
            same_sign = relations[0][1] == relations[1][1]
            return same_sign and self._is_multiple(relations[0][0], relations[1][0], positive=True)
        if set(kinds) == {"words", "number"} and self._same_product(gold, prediction):
            return True
        if gold.kind != prediction.kind:
            return self._same_vector(gold, prediction) or (gold.text == prediction.text and bool(gold.text))
        return self._same_kind(gold, prediction)

    def _same_product(self, gold: Form, prediction: Form) -> bool:
        """Letters side by side, which read as a word, beside a formula: ab and b * a."""
        nodes = [f.node if f.kind == "number" else _product(f) for f in (gold, prediction)]
        if any(node is None or not node.has_symbols for node in nodes):
            return False
        return self._same_value(*(node for node in nodes if node is not None))

    def _same_vector(self, gold: Form, prediction: Form) -> bool:
        """A column and a tuple in round brackets, where that is accepted."""
        signs = {f.kind: f.sign for f in (gold, prediction)}
        is_column = set(signs.get("matrix", "-")) <= set("1x") and signs.get("tuple") == "()"
        return (
            self._section.accept_vectors_as_tuples and is_column and self._same_in_order(gold.items, prediction.items)
        )

    def _same_kind(self, gold: Form, prediction: Form) -> bool:
        if gold.kind == "words":
            words = [f.text if len(f.text) == 1 else f.text.casefold() for f in (gold, prediction)]
            return words[0] == words[1] and bool(words[0])
        if gold.kind == "number":
            return self._same_number(gold, prediction)
        if gold.kind == "relation":
            return gold.sign == prediction.sign and self._is_multiple(gold.node, prediction.node, positive=True)
        if gold.kind == "union":
            return self._same_members(gold.items, prediction.items)
        return gold.sign == prediction.sign and self._same_in_order(gold.items, prediction.items)

    def _same_in_order(self, gold: tuple[Form, ...], prediction: tuple[Form, ...]) -> bool:
        if len(gold) != len(prediction) or len(gold) > MAX_ITEMS:
            return False
        return all(self._same(a, b) for a, b in zip(gold, prediction, strict=True))

    def _same_members(self, gold: tuple[Form, ...], prediction: tuple[Form, ...]) -> bool:
        """Each member of one finds a partner of its own in the other."""
        if len(gold) != len(prediction) or len(gold) > MAX_ITEMS:
            return False
        left = list(prediction)
        for member in gold:
            partner = next((i for i, p in enumerate(left) if _is_copy(p, member)), None)
            if partner is None:
                partner = next((i for i, p in enumerate(left) if self._same(member, p)), None)
            if partner is None:
                return False
            del left[partner]
        return True

    def _same_number(self, gold: Form, prediction: Form) -> bool:
        assert gold.node is not None and prediction.node is not None
        if gold.unit and prediction.unit and gold.unit != prediction.unit:
            self.reason = f"the units differ: {gold.unit} and {prediction.unit}"
            return False
        a, b = gold.node, prediction.node
        if a.plain is not None and b.plain is None and not self._section.accept_unevaluated:
            self.rule = "unevaluated"
            self.reason = "the gold answer is a number, the prediction still has to be computed"
            return False
        if self._same_value(a, b):
            return True
        if prediction.unit == "percent" and not gold.unit:
            return self._same_value(a, scaled(b, Fraction(1, 100)))
        if gold.unit == "percent" and not prediction.unit and self._section.accept_percent_as_fraction:
            return self._same_value(scaled(a, Fraction(1, 100)), b)
        return False

    def _same_value(self, gold: Expression, prediction: Expression) -> bool:
        if gold.plain is not None and prediction.plain is not None:
            return same_number(gold.plain, prediction.plain, self._section)
        if gold.latex == prediction.latex:
            return True
        self._ask_library()
        return symbolic.same_value(gold, prediction, self._section)

    def _is_multiple(self, gold: Expression | None, prediction: Expression | None, *, positive: bool = False) -> bool:
        if gold is None or prediction is None or not (gold.has_symbols or prediction.has_symbols):
            return False
        self._ask_library()
        return symbolic.is_multiple(gold, prediction, positive=positive)

    def _ask_library(self) -> None:
        if not self._with_library:
            raise NeedsLibrary


def _is_copy(a: Form, b: Form) -> bool:
    return (a.text, a.kind, a.name, a.unit) == (b.text, b.kind, b.name, b.unit)


def _product(form: Form) -> Expression | None:
    try:
        return read_expression(form.text) if _LETTERS.fullmatch(form.text) else None
    except Unreadable:
        return None


def _as_relation(form: Form) -> tuple[Expression | None, str]:
    """Left minus right and the sign; the interval of x < 1 is (-oo, 1), closed at its end where the sign was <=."""
    if form.kind == "relation":
        return form.node, form.sign
    return form.named_node, "\\le" if "[" in form.sign or "]" in form.sign else "<"


def _worded(form: Form) -> Form:
    number = NUMBER_WORDS.get(form.text.casefold())
    return form if number is None else replace(form, kind="number", node=read_expression(str(number)))
