"""What stands round a number without changing it: currency, percent, degrees, units; and words that do change it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CURRENCY = re.compile(
    r"(?P<sign>[-+]?)\s*(?:US\s*)?(?P<mark>\\?\$|\\text\{\s*\\?\$\s*\}|\\pounds|[\u20ac\u00a3\u00a5\u20b9])\s*(?P<rest>.+)",
    re.DOTALL,
)
_CURRENCY_NAMES = {"\u20ac": "euro", "\u00a3": "pound", "\\pounds": "pound", "\u00a5": "yen", "\u20b9": "rupee"}
_CURRENCY_BEHIND = re.compile(r"(?P<head>.*\d)\s*(?P<mark>\\?\$|[\u20ac\u00a3\u00a5\u20b9])", re.DOTALL)
_PERCENT = re.compile(r"(?P<head>.*[\d})])\s*(?:%|percent|pct|\\text\{\s*(?:%|percent|pct)\s*\})", re.DOTALL)
_DEGREES = re.compile(r"(?P<head>.*[\d})])\s*\^\s*\\circ(?:\s*[CF])?", re.DOTALL)
_CIRCULAR = re.compile(r"sin|cos|tan|sec|csc|cot")
"""The sine of 30 degrees is no number of degrees."""
_WRAPPED = re.compile(
    r"(?P<head>.*[\d})!])\s*\\text\s*\{(?P<unit>[^{}]*)\}\s*(?P<power>\^\s*\{?\s*\d\s*\}?)?", re.DOTALL
)
_PLAIN = re.compile(
    r"(?P<gap>\s*)(?P<unit>[A-Za-z]+\.?(?:\^\{?-?\d\}?)?(?:\s*/\s*[A-Za-z]+\.?(?:\^\{?-?\d\}?)?|\s+[A-Za-z]+\.?){0,5})"
)
_LONGEST_UNIT = 60

_CLOSE_UNITS = frozenset(
    re.findall(
        r"\w+",
        "m cm mm dm nm km kg mg ml mL ft yd mi lb lbs oz hr hrs min mins sec secs mph kph Hz kHz kW kWh am pm AM PM",
    )
)
"""May stand right behind a number; any other letters there are variables."""
_LINKS = frozenset(re.findall(r"\w+", "of per an a in"))
_SHORT_WORDS = _LINKS | frozenset(re.findall(r"\w+", "in g s h L"))
_POWERS = frozenset(("squared", "cubed"))
_NOT_UNITS = frozenset(
    re.findall(
        r"\w+",
        "not is no and or minus plus times divided over half pi sin cos tan log ln exp sqrt mod infinity inf less more "
        "than to by if where when below choose halves third thirds quarter quarters fourth fourths fifth fifths "
        "tenth tenths hundredth hundredths thousandth thousandths hundred thousand million billion trillion dozen "
        "percent pct",
    )
)
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALE = re.compile(
    rf"(?P<head>.*\d)\s*(?P<wrapped>\\text\s*\{{\s*)?(?P<scale>{'|'.join(_SCALES)})s?(?![A-Za-z])(?P<unit>[^{{}}]*)\}}?",
    re.DOTALL,
)
_SAME = {
    "$": "dollar", "usd": "dollar", "buck": "dollar", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm",
    "meter": "m", "metre": "m", "kilometer": "km", "kilometre": "km", "gram": "g", "kilogram": "kg", "hour": "hr",
    "h": "hr", "minute": "min", "second": "sec", "s": "sec", "inche": "in", "inch": "in", "feet": "ft", "foot": "ft",
    "mph": "mi / hr", "kph": "km / hr", "kmh": "km / hr", "kmph": "km / hr",
    "yard": "yd", "mile": "mi", "pound": "lb", "ounce": "oz", "liter": "l", "litre": "l",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stripped:
    """A number and what stood round it."""

    text: str
    unit: str = ""
    """One spelling of the unit, "percent" and "degree" among them; empty without one."""
    scale: int = 1
    """What the words hundred, thousand, ... multiply by."""


def strip_unit(text: str) -> Stripped:
    """Cleaned text apart from its unit. Text without digits is left alone: it has no number to be the unit of."""
    text = text.strip()
    if not any(c.isdigit() for c in text):
        return Stripped(text)
    scale = _SCALE.fullmatch(text)
    if scale:
        unit = f"\\text{{{scale['unit']}}}" if scale["wrapped"] else scale["unit"]
        inner = strip_unit(f"{scale['head']} {unit}" if scale["unit"].strip() else scale["head"])
        return Stripped(inner.text, inner.unit, inner.scale * _SCALES[scale["scale"]])
    unit = ""
    match = _CURRENCY.fullmatch(text)
    if match:
        text, unit = match["sign"] + match["rest"], _CURRENCY_NAMES.get(match["mark"], "dollar")
    text, behind = _strip_behind(text)
    return Stripped(text.strip(), unit or behind)


def _strip_behind(text: str) -> tuple[str, str]:
    for pattern, name in ((_PERCENT, "percent"), (_DEGREES, "degree")):
        match = pattern.fullmatch(text)
        if match and not (name == "degree" and _CIRCULAR.search(match["head"])):
            return match["head"], name
    match = _CURRENCY_BEHIND.fullmatch(text)
    if match:
        return match["head"], _CURRENCY_NAMES.get(match["mark"], "dollar")
    match = _WRAPPED.fullmatch(text)
    if match and not set(match["unit"].casefold().split()) & _NOT_UNITS:
        return match["head"], _one_spelling(match["unit"] + re.sub(r"[\s{}]", "", match["power"] or ""))
    return _strip_plain(text)


def _strip_plain(text: str) -> tuple[str, str]:
    """Words behind a number: known short units, or words of three letters and more behind a blank."""
    for start in range(max(len(text) - _LONGEST_UNIT, 1), len(text)):
        if text[start - 1].isdigit() or text[start - 1] in "})!":
            match = _PLAIN.fullmatch(text, start)
            if match and _is_unit(match["unit"], has_gap=bool(match["gap"])) and not _has_letters(text[:start]):
                return text[:start], _one_spelling(match["unit"])
    return text, ""


def _has_letters(text: str) -> bool:
    """True when a variable stands in the text: what follows is then a factor and not a unit."""
    return re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", text)) is not None


def _is_unit(text: str, *, has_gap: bool) -> bool:
    words = re.findall(r"[A-Za-z]+", text)
    if any(w.casefold() in _NOT_UNITS for w in words) or words[0] in _POWERS:
        return False
    if not has_gap:
        return words[0] in _CLOSE_UNITS and all(w in _CLOSE_UNITS for w in words)
    return all(len(w) >= 3 or w in _CLOSE_UNITS or w in _SHORT_WORDS for w in words) and words[0] not in (
        "of",
        "per",
        "an",
        "a",
    )


def _one_spelling(unit: str) -> str:
    rate = re.sub(r"\s*/\s*|\s+per\s+", " / ", re.sub(r"[{}]", "", unit))
    words = [w.rstrip(".").casefold() for w in rate.split()]
    singular = [w[:-1] if len(w) > 2 and w.endswith("s") and not w.endswith("ss") else w for w in words]
    return " ".join(_SAME.get(w, w) for w in singular)
