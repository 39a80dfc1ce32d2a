r"""LaTeX and plain arithmetic, spelt so that the library's reader cannot misread it; what is not understood is refused.

latex2sympy, the reader of math-verify, reads 2(3) as two and three thirds, 204_5 as 204, x' as x, f'(x) as fx,
1/2x as 1/(2x), 2\cdots10 as 20s, and knows nothing of sqrt(17), \sqrt3 or \frac12. Here every product gets its sign,
every argument its braces, every decimal its fraction, and every symbol a name of its own:

"2\frac12 y'"  becomes  "(2+\frac{1}{2})\cdot x_{31015}"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

from agentmath.rewards.numbers import Plain, plain_number

MAX_CHARS = 2000
MAX_DEPTH = 40
"""Nested brackets, roots and exponents."""

_FUNCTIONS = frozenset(re.findall(r"\w+", "sin cos tan sec csc cot sinh cosh tanh arcsin arccos arctan ln log exp"))
_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-][0-9]{2,4}(?![0-9])|[eE][0-9]{1,4}(?![0-9.]))?)"
    r"|(?P<text>\\text\s*\{[^{}]*\})"
    r"|(?P<command>\\[A-Za-z]+)"
    r"|(?P<word>(?:sqrt|arcsin|arccos|arctan|sin|cos|tan|sec|csc|cot|log|ln|exp|pi)(?![A-Za-z]))"
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
_SIMPLE = re.compile(r"\d+|x_\{\d+\}|e")
_ARGUMENT_ENDS = frozenset("+-*/)]}|") | _FUNCTIONS | {"rfloor", "rceil"}
_SYMBOL = "x_{"
_CLOSERS = {"(": ")", "[": "]", "{": "}", "|": "|", "lfloor": "rfloor", "lceil": "rceil"}


class Unreadable(Exception):
    """The text is not an expression of the kind that is understood."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Something with a value."""

    latex: str
    """For the library's reader; never what the model wrote."""
    has_decimal: bool = False
    """True when a number was written with a decimal point."""
    plain: Plain | None = None
    """The number, where there is no work left in it."""

    @property
    def has_symbols(self) -> bool:
        return _SYMBOL in self.latex


def read_expression(text: str) -> Expression:
    """The expression that cleaned text says. Raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise Unreadable(f"{len(text)} characters, at most {MAX_CHARS} are read")
    tokens = _tokens(text)
    has_decimal = any(kind == "number" and not word.isdigit() for kind, word in tokens)
    return Expression(_Writer(tokens).sequence(""), has_decimal, plain_number(_unbracketed(text)))


def scaled(expression: Expression, factor: Fraction) -> Expression:
    """The expression times a positive number."""
    if factor == 1:
        return expression
    latex = rf"({expression.latex})\cdot \frac{{{factor.numerator}}}{{{factor.denominator}}}"
    plain = expression.plain and replace(expression.plain, value=expression.plain.value * factor)
    return replace(expression, latex=latex, plain=plain)


def difference(left: Expression, right: Expression) -> Expression:
    """Left minus right."""
    return Expression(f"({left.latex})-({right.latex})", left.has_decimal or right.has_decimal)


def _unbracketed(text: str) -> str:
    letters = re.sub(r"\s+", "", text)
    while letters[:1] + letters[-1:] in ("()", "[]", "{}"):
        letters = letters[1:-1]
    return letters


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


class _Writer:
    """Reads tokens once, from left to right, and writes the library's spelling."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.bars = 0

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.at]
        if token[0] == "end":
            raise Unreadable("it breaks off")
        self.at += 1
        return token

    def peek(self) -> str:
        """The next sign or command; empty before anything else."""
        kind, word = self.tokens[self.at]
        return word if kind in ("sign", "command") else ""

    def took(self, word: str) -> bool:
        """Take the next sign or command if it is this one."""
        is_next = self.peek() == word
        self.at += is_next
        return is_next

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"nested deeper than {MAX_DEPTH}")
        yield
        self.depth -= 1

    def sequence(self, closer: str, *, is_argument: bool = False) -> str:
        """Terms up to the closer, which is taken. The argument of a function without brackets ends at the next sign."""
        parts: list[str] = []
        sign = ""
        while not self.ends(closer, is_argument=is_argument and bool(parts)):
            if self.peek() in ("+", "-", "*", "/"):
                word = self.take()[1]
                if word in "*/" and (sign or not parts):
                    raise Unreadable(f"{word!r} has nothing before it")
                sign = _joined_signs(sign, word)
                continue
            if not sign and parts and self.tokens[self.at][0] == "number":
                raise Unreadable("a number stands right behind something else")
            self.term(parts, sign)
            sign = ""
        if sign or not parts:
            raise Unreadable("it breaks off")
        self.at += bool(closer)
        return "".join(parts)

    def ends(self, closer: str, *, is_argument: bool) -> bool:
        word = self.peek()
        if self.tokens[self.at][0] == "end":
            if closer:
                raise Unreadable(f"{closer!r} is missing")
            return True
        return (word != "" and word == closer) or (is_argument and word in _ARGUMENT_ENDS)

    def term(self, parts: list[str], sign: str) -> None:
        """One factor with its sign, added to the parts; a proper fraction behind a whole number makes it mixed."""
        is_fraction = self.peek() == "frac"
        factor = self.power(self.atom())
        if not sign and parts and is_fraction and _is_mixed(parts[-1], factor):
            parts[-1] = f"({parts[-1]}+{factor})"
        else:
            parts += [sign or (r"\cdot " if parts else ""), factor]

    def power(self, base: str) -> str:
        while True:
            if self.took("!"):
                if self.peek() == "!":
                    raise Unreadable("a double factorial")
                base = f"{_grouped(base)}!"
            elif not self.took("^"):
                return base
            elif self.took("circ"):
                base = rf"(({base})\cdot \frac{{\pi}}{{180}})"
            else:
                base = f"{_grouped(base)}^{{{self.exponent()}}}"

    def exponent(self) -> str:
        with self.deeper():
            sign = ""
            while self.peek() in ("+", "-"):
                sign = _joined_signs(sign, self.take()[1])
            atom = self.atom()
            return f"{sign}{_grouped(atom)}^{{{self.exponent()}}}" if self.took("^") else sign + atom

    def atom(self) -> str:
        kind, word = self.take()
        with self.deeper():
            if kind == "number":
                return self.number(word)
            if kind in ("letter", "text") or word in _GREEK:
                return self.symbol(re.sub(r"\s+", "", word))
            if word in _CLOSERS:
                return self.bracketed(word)
            if kind == "command":
                return self.command(word)
        raise Unreadable(f"{word!r} stands where a number should")

    def number(self, word: str) -> str:
        if self.peek() == "_":
            raise Unreadable("a number in another base")
        if word.isdigit():
            return word.lstrip("0") or "0"
        plain = plain_number(word)
        if plain is None:
            raise Unreadable(f"the number {word[:20]} is too long")
        return rf"(\frac{{{plain.value.numerator}}}{{{plain.value.denominator}}})"

    def bracketed(self, opening: str) -> str:
        bars, self.bars = self.bars, self.bars + 1 if opening == "|" else 0
        inner = self.sequence(_CLOSERS[opening])
        self.bars = bars
        if opening == "|":
            return f"|({inner})|"
        return f"\\{opening} {inner}\\{_CLOSERS[opening]} " if opening.isalpha() else f"({inner})"

    def symbol(self, name: str) -> str:
        """A constant, or a symbol of a name that tells it from all others and cannot be taken for anything else."""
        if self.took("_"):
            word = self.take()[1]
            while word[0] == "{" and word[-1] != "}":
                word += self.take()[1]
            name = f"{name}_{word.strip('{}')}"
        if name in ("e", "i"):
            return "I" if name == "i" else "e"
        return f"{_SYMBOL}{int.from_bytes(name.encode('utf-8', 'surrogatepass'), 'big')}}}"

    def command(self, name: str) -> str:
        if name == "pi":
            return r"\pi "
        if name in ("frac", "binom"):
            return rf"\{name}{{{self.argument()}}}{{{self.argument()}}}"
        if name == "sqrt":
            root = f"[{self.sequence(']')}]" if self.took("[") else ""
            return rf"\sqrt{root}{{{self.argument(whole_number=True)}}}"
        if name in _FUNCTIONS:
            return self.function(name)
        raise Unreadable(f"\\{name} is not known")

    def argument(self, *, whole_number: bool = False) -> str:
        """What follows \\frac or \\sqrt: a group, or one sign: \\frac12 has two arguments of one digit."""
        kind, word = self.tokens[self.at]
        if kind == "number" and word.isdigit() and len(word) > 1 and not whole_number:
            self.tokens[self.at] = (kind, word[1:])
            return word[0]
        written = self.atom()
        return written[1:-1] if (kind, word) == ("sign", "{") else written

    def function(self, name: str) -> str:
        base = f"_{{{self.argument()}}}" if name == "log" and self.took("_") else ""
        exponent = self.exponent() if self.took("^") else ""
        if exponent in ("-1", "(-1)"):
            name, exponent = f"arc{name}", ""
            if name not in _FUNCTIONS:
                raise Unreadable(f"\\{name} is not known")
        has_bracket = self.peek() in ("(", "[", "{", "|")
        inner = self.bracketed(self.take()[1]) if has_bracket else f"({self.sequence('', is_argument=True)})"
        written = rf"\{name}{base}{inner}"
        return rf"({written})^{{{exponent}}}" if exponent else written


def _grouped(written: str) -> str:
    return written if _SIMPLE.fullmatch(written) else f"({written})"


def _joined_signs(before: str, sign: str) -> str:
    """One sign for several: 2 - -3 is 2 + 3, 2 * -3 is 2 times minus one times 3."""
    if before in ("", "+", "-"):
        return {"*": r"\cdot ", "/": "/"}.get(sign, "-" if (before == "-") != (sign == "-") else "+")
    return before + (rf"(-1){before}" if sign == "-" else "")


def _is_mixed(whole: str, fraction: str) -> bool:
    match = re.fullmatch(r"\\frac\{(\d+)\}\{(\d+)\}", fraction)
    return whole.isdigit() and match is not None and 0 < int(match[1]) < int(match[2])
