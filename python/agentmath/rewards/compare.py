"""Whether two answers, taken apart, say the same."""

from __future__ import annotations

from fractions import Fraction

from agentmath.rewards.evaluate import NUM_POINTS, applies, evaluate, point
from agentmath.rewards.forms import MAX_ITEMS, Form
from agentmath.rewards.nodes import Node
from agentmath.rewards.values import Arithmetic, Unevaluable, Value

DECIMAL_TOLERANCE = Fraction(1, 10**6)
"""Relative; only where one side was written with a decimal point and neither is a whole number."""

_FEWEST_POINTS = 2
"""Test points at which two expressions with symbols must be defined and agree."""


class Comparison:
    """One verdict: a budget of arithmetic, and which rule decided."""

    def __init__(self, *, accept_unevaluated: bool) -> None:
        self.accept_unevaluated = accept_unevaluated
        self.rule = "different"
        self.reason = ""
        self._arithmetic = Arithmetic()
        self._values: dict[tuple[int, int], Value | None] = {}
        self._alive: list[Node] = []

    def equal(self, gold: Form, prediction: Form) -> bool:
        """True when the prediction says what gold says; sets rule and reason."""
        self.rule = gold.kind
        try:
            equal = self._same(gold, prediction)
        except Unevaluable as fault:
            self.rule, self.reason = "unevaluable", f"not computed: {fault}"
            return False
        if not self.reason:
            self.reason = f"compared as {gold.kind} and {prediction.kind}"
        return equal

    def _same(self, gold: Form, prediction: Form) -> bool:
        if gold.name and prediction.name and gold.name != prediction.name:
            return self._proportional(gold.named_node, prediction.named_node)
        if "equation" in (gold.kind, prediction.kind):
            sides = [f.node if f.kind == "equation" else f.named_node for f in (gold, prediction)]
            return gold.text == prediction.text or self._proportional(sides[0], sides[1])
        if "list" in (gold.kind, prediction.kind):
            sides = [f.items if f.kind == "list" else (f,) for f in (gold, prediction)]
            return self._same_members(sides[0], sides[1])
        if {gold.kind, prediction.kind} == {"relation", "tuple"}:
            relations = [_as_relation(f) for f in (gold, prediction)]
            return relations[0][1] == relations[1][1] and self._proportional(
                relations[0][0], relations[1][0], positive=True
            )
        if gold.kind != prediction.kind:
            return gold.text == prediction.text and bool(gold.text)
        return self._same_kind(gold, prediction)

    def _same_kind(self, gold: Form, prediction: Form) -> bool:
        if gold.kind == "words":
            words = [f.text if len(f.text) == 1 else f.text.casefold() for f in (gold, prediction)]
            return words[0] == words[1] and bool(words[0])
        if gold.kind == "number":
            return self._same_number(gold, prediction)
        if gold.kind == "relation":
            return gold.sign == prediction.sign and self._proportional(gold.node, prediction.node, positive=True)
        if gold.kind == "union":
            return self._same_members(gold.items, prediction.items)
        if gold.sign != prediction.sign or len(gold.items) != len(prediction.items) or len(gold.items) > MAX_ITEMS:
            return False
        return all(self._same(a, b) for a, b in zip(gold.items, prediction.items, strict=True))

    def _same_members(self, gold: tuple[Form, ...], prediction: tuple[Form, ...]) -> bool:
        """Each member of one finds a partner of its own in the other."""
        if len(gold) != len(prediction) or len(gold) > MAX_ITEMS:
            return False
        left = list(prediction)
        for member in gold:
            partner = next((i for i, p in enumerate(left) if p.text == member.text and p.kind == member.kind), None)
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
        if gold.node.is_literal and not (self.accept_unevaluated or prediction.node.is_literal):
            self.rule, self.reason = (
                "unevaluated",
                "the gold answer is a number, the prediction still has to be computed",
            )
            return False
        if gold.node == prediction.node or self._same_value(gold.node, prediction.node):
            return True
        if prediction.unit == "percent" and not gold.unit:
            hundredth = Node("quotient", (prediction.node, Node("integer", value=Fraction(100))))
            return self._same_value(gold.node, hundredth)
        return False

    def _same_value(self, gold: Node, prediction: Node) -> bool:
        has_symbols = bool(gold.symbols or prediction.symbols)
        has_decimal = gold.has_decimal or prediction.has_decimal
        num_defined = 0
        for index in range(NUM_POINTS if has_symbols else 1):
            if has_symbols and not (applies(gold, index) and applies(prediction, index)):
                continue
            a, b = self._value(gold, index), self._value(prediction, index)
            if a is None or b is None:
                continue
            num_defined += 1
            if not (self._arithmetic.agree(a, b) or (has_decimal and self._close(a, b))):
                return False
        if num_defined == 0:
            self.rule, self.reason = "unevaluable", "a side is too large or undefined, and the letters differ"
        return num_defined >= (_FEWEST_POINTS if has_symbols else 1)

    def _close(self, a: Value, b: Value) -> bool:
        """Equal to DECIMAL_TOLERANCE; a whole number equals nothing but itself."""
        if any(v.rational is not None and v.rational.denominator == 1 for v in (a, b)):
            return False
        x, y = (self._arithmetic.decimals(v) for v in (a, b))
        reals = [Fraction(part) for part in (x[0], y[0])]
        if x[1] != 0 or y[1] != 0:
            return False
        return abs(reals[0] - reals[1]) <= DECIMAL_TOLERANCE * max(abs(reals[0]), abs(reals[1]))

    def _proportional(self, gold: Node | None, prediction: Node | None, *, positive: bool = False) -> bool:
        """True when one difference of sides is a constant multiple of the other: the equations say the same."""
        if gold is None or prediction is None or not (gold.symbols or prediction.symbols):
            return False
        ratios: list[Value] = []
        for index in range(NUM_POINTS):
            a, b = self._value(gold, index), self._value(prediction, index)
            if a is None or b is None or (a.re == 0 and a.im == 0) or (b.re == 0 and b.im == 0):
                continue
            ratios.append(self._arithmetic.multiply(a, self._arithmetic.invert(b)))
        if len(ratios) < _FEWEST_POINTS:
            return False
        if positive and not all(r.re > 0 and r.im == 0 for r in ratios):
            return False
        return all(self._arithmetic.agree(ratios[0], r) for r in ratios[1:])

    def _value(self, node: Node, index: int) -> Value | None:
        key = (id(node), index)
        if key not in self._values:
            self._alive.append(node)
            try:
                self._values[key] = evaluate(node, point(index), self._arithmetic)
            except Unevaluable:
                self._values[key] = None
        return self._values[key]


def _as_relation(form: Form) -> tuple[Node | None, str]:
    """Left minus right and the sign; the interval of x < 1 is (-oo, 1), closed at its end where the sign was <=."""
    if form.kind == "relation":
        return form.node, form.sign
    return form.named_node, "\\le" if "[" in form.sign or "]" in form.sign else "<"
