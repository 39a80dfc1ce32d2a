r"""LaTeX and plain arithmetic into a tree. Reads, never runs: what is not understood is refused.

sum      := product (("+" | "-") product)*
product  := signed (("*" | "/")? signed)*          blanks between factors multiply, 2\frac{1}{2} is a mixed number
signed   := ("+" | "-")* power
power    := atom ("!" | degree sign)* ("^" exponent)?
atom     := number | symbol | constant | \frac | \sqrt | function | (sum) | [sum] | {sum} | |sum|
"""

from __future__ import annotations

import re
from fractions import Fraction

from agentmath.rewards.nodes import Node, Unreadable, is_mixed

MAX_CHARS = 2000
MAX_DEPTH = 40
"""Nested brackets, roots and exponents."""

FUNCTIONS = frozenset(re.findall(r"\w+", "sin cos tan sec csc cot ln log exp"))

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]\d{2,4}(?!\d)|[eE]\d{1,4}(?![\d.]))?)"
    r"|(?P<text>\\text\s*\{[^{}]*\})"
    r"|(?P<command>\\[A-Za-z]+)"
    r"|(?P<word>(?:sqrt|sin|cos|tan|sec|csc|cot|log|ln|exp|pi)(?![A-Za-z]))"
    r"|(?P<letter>[A-Za-z]'*)"
    r"|(?P<sign>\*\*|[-+*/^_()\[\]{}|!])"
    r")"
)
_GREEK = frozenset(
    re.findall(
        r"\w+",
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau "
        "upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell",
    )
)
_CLOSERS = {"(": ")", "[": "]", "{": "}", "|": "|"}


def parse(text: str) -> Node:
    """The tree of an expression. Raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise Unreadable(f"{len(text)} characters, at most {MAX_CHARS} are read")
    parser = _Parser(_tokens(text))
    node = parser.sum()
    if parser.tokens[parser.at][0] != "end":
        raise Unreadable(f"cannot go on at {parser.tokens[parser.at][1]!r}")
    return node


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise Unreadable(f"cannot read {text[position : position + 10]!r}")
        kind, word = match.lastgroup, match.group(match.lastgroup)
        if kind in ("command", "word"):
            kind, word = "command", word.lstrip("\\")
        tokens.append((kind, "^" if word == "**" else word))
        position = match.end()
    tokens.append(("end", ""))
    return tokens


class _Parser:
    """Recursive descent over tokens; depth is bounded."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.bars = 0

    def peek(self, *signs: str) -> bool:
        kind, word = self.tokens[self.at]
        return kind == "sign" and word in signs

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.at]
        if token[0] == "end":
            raise Unreadable("it breaks off")
        self.at += 1
        return token

    def expect(self, sign: str) -> None:
        if not self.peek(sign):
            raise Unreadable(f"{sign!r} is missing")
        self.at += 1

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"nested deeper than {MAX_DEPTH}")
        terms = [self.product()]
        while self.peek("+", "-"):
            negative = self.take()[1] == "-"
            term = self.product()
            terms.append(Node("negative", (term,)) if negative else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("sum", tuple(terms))

    def product(self, *, implicit_only: bool = False) -> Node:
        factors = [self.signed()]
        while True:
            if self.peek("*") and not implicit_only:
                self.take()
                factors.append(self.signed())
            elif self.peek("/") and not implicit_only:
                self.take()
                factors = [Node("quotient", (_product(factors), self.signed()))]
            elif self.starts_factor() and not (implicit_only and self.at_function()):
                is_fraction = self.tokens[self.at] == ("command", "frac")
                factor = self.power()
                if is_fraction and is_mixed(factors[-1], factor):
                    factors[-1] = Node("mixed", (factors[-1], factor))
                else:
                    factors.append(factor)
            else:
                return _product(factors)

    def starts_factor(self) -> bool:
        kind, word = self.tokens[self.at]
        if kind == "sign":
            return word in "([{" or (word == "|" and self.bars == 0)
        return kind not in ("end", "number")

    def at_function(self) -> bool:
        kind, word = self.tokens[self.at]
        return kind == "command" and word in FUNCTIONS

    def signed(self) -> Node:
        negative = False
        while self.peek("+", "-"):
            negative ^= self.take()[1] == "-"
        node = self.power()
        return Node("negative", (node,)) if negative else node

    def power(self) -> Node:
        node = self.atom()
        while True:
            if self.peek("!"):
                self.take()
                node = Node("factorial", (node,))
            elif not self.peek("^"):
                return node
            elif self.tokens[self.at + 1] == ("command", "circ"):
                self.at += 2
                node = Node("degrees", (node,))
            else:
                self.take()
                node = Node("power", (node, self.exponent()))

    def exponent(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"nested deeper than {MAX_DEPTH}")
        negative = False
        while self.peek("+", "-"):
            negative ^= self.take()[1] == "-"
        node = self.atom()
        while self.peek("^"):
            self.take()
            node = Node("power", (node, self.exponent()))
        self.depth -= 1
        return Node("negative", (node,)) if negative else node

    def atom(self) -> Node:
        kind, word = self.take()
        if kind == "number":
            if self.peek("_"):
                raise Unreadable("a number in another base")
            return Node("decimal" if set(word) & set(".eE") else "integer", value=Fraction(word))
        if kind == "letter":
            return self.symbol(word)
        if kind == "text":
            return Node("symbol", value=re.sub(r"\s+", "", word))
        if kind == "command":
            return self.command(word)
        if word in _CLOSERS:
            return self.bracketed(word)
        raise Unreadable(f"{word!r} stands where a number should")

    def bracketed(self, opening: str) -> Node:
        bars, self.bars = self.bars, self.bars + 1 if opening == "|" else 0
        inner = self.sum()
        self.expect(_CLOSERS[opening])
        self.bars = bars
        return Node("absolute", (inner,)) if opening == "|" else inner

    def symbol(self, name: str) -> Node:
        if self.peek("_"):
            self.take()
            kind, word = self.take()
            if (kind, word) == ("sign", "{"):
                while not self.peek("}"):
                    word += self.take()[1]
                self.take()
                word = word[1:]
            return Node("symbol", value=f"{name}_{word}")
        return Node("constant", value=name) if name in ("e", "i") else Node("symbol", value=name)

    def command(self, name: str) -> Node:
        if name == "pi":
            return Node("constant", value="pi")
        if name == "frac":
            return Node("quotient", (self.argument(), self.argument()))
        if name == "binom":
            return Node("binomial", (self.argument(), self.argument()))
        if name == "sqrt":
            degree = Node("integer", value=Fraction(2))
            if self.peek("["):
                degree = self.bracketed(self.take()[1])
            radicand = self.argument(whole_number=True)
            return Node("power", (radicand, Node("quotient", (Node("integer", value=Fraction(1)), degree))))
        if name in FUNCTIONS:
            return self.function(name)
        if name in _GREEK:
            return self.symbol(name)
        raise Unreadable(f"\\{name} is not known")

    def argument(self, *, whole_number: bool = False) -> Node:
        """What follows \\frac or \\sqrt: a group, or one sign: \\frac12 has two arguments of one digit."""
        kind, word = self.tokens[self.at]
        if kind == "number" and word.isdigit() and len(word) > 1 and not whole_number:
            self.tokens[self.at] = (kind, word[1:])
            return Node("integer", value=Fraction(word[0]))
        return self.atom()

    def function(self, name: str) -> Node:
        base = exponent = None
        if name == "log" and self.peek("_"):
            self.take()
            base = self.argument()
        if self.peek("^"):
            self.take()
            exponent = self.exponent()
        has_bracket = self.peek("(", "[", "{", "|")
        inner = self.bracketed(self.take()[1]) if has_bracket else self.product(implicit_only=True)
        node = Node("function", (inner,) if base is None else (inner, base), name)
        return node if exponent is None else Node("power", (node, exponent))


def _product(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Node("product", tuple(factors))
