r"""Sentences in a question that say how to state its answer, such as "Put your final answer within \boxed{}."

Data sets made for one trainer carry its instructions, and those of two trainers contradict each other. What is cut must
name a form (\boxed, ####, "Answer:") and speak of an answer or a response; "Express your answer as a common fraction"
belongs to the problem and stays.
"""

from __future__ import annotations

import re

_ABOUT = re.compile(
    r"\b(?:your|the|final|last)\s+(?:final\s+)?(?:answer|response|result)\b|\bresponse\b", re.IGNORECASE
)
_BREAK = re.compile(r"\n\s*|(?<=[.?!$})\]])[ \t]+(?=[A-Z])")
_MAX_CHARS = 400


def without_instructions(question: str) -> str:
    """The question without a first paragraph and last sentences that only say how to answer; never empty of text."""
    if not _names_a_form(question):
        return question
    first, _, rest = question.partition("\n\n")
    kept = rest.strip() if rest.strip() and _is_instruction(first) else question
    while _names_a_form(kept[-_MAX_CHARS:]) and (start := _last_sentence(kept)) and _is_instruction(kept[start:]):
        kept = kept[:start].rstrip()
    return kept


def _last_sentence(text: str) -> int:
    """Where the last sentence or line begins; 0 when there is only one."""
    begin = max(0, len(text) - _MAX_CHARS)
    starts = [match.end() for match in _BREAK.finditer(text, begin)]
    return starts[-1] if starts else 0


def _is_instruction(text: str) -> bool:
    return len(text) <= _MAX_CHARS and _names_a_form(text) and _ABOUT.search(text) is not None


def _names_a_form(text: str) -> bool:
    return "\\boxed" in text or "####" in text or "Answer:" in text
