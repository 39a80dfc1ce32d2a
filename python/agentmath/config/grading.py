"""[grading]: what counts as the right answer where people disagree, and the limits of a verdict."""

from __future__ import annotations

from pydantic import Field

from agentmath.config.section import Section


class GradingSection(Section):
    accept_unevaluated: bool = False
    """Whether 2+3 or \\sqrt{16} is right where the gold answer is a plain number; else the work is still to be done."""
    accept_unreduced: bool = True
    """Whether 2/4 is right for 1/2."""
    accept_percent_as_fraction: bool = False
    """Whether 0.28 is right for 28%; 28% is right for 0.28 either way, as it states its own unit."""
    accept_rounded_gold: bool = True
    """Whether 100/3 is right for 33.3: gold has a decimal point and three digits, and is the prediction rounded."""
    accept_number_words: bool = False
    """Whether "two" is right for 2."""
    accept_vectors_as_tuples: bool = False
    """Whether (1,2) is right for a column of 1 and 2."""
    read_decimal_comma: bool = False
    """Whether 1000,99 is 1000.99; 1,000 stays a thousand."""
    join_boxes: bool = True
    """Whether boxes with nothing but a comma or "and" between them are one list; else the last box counts alone."""
    ignore_think: bool = True
    """Whether a box in a closed <think> section is no answer."""
    decimal_tolerance: float = Field(default=1e-6, ge=0, le=0.01)
    """Relative difference allowed where one side is written as a decimal and neither is a whole number."""
    answer_seconds: float = Field(default=5.0, gt=0, le=3600)
    """Processor time that one answer may take, by the clock four times that; then the verdict is "unknown", never
    "wrong"."""
    num_workers: int = Field(default=2, ge=1, le=256)
    """Processes for answers that are no plain numbers; none is started before the first such answer."""
    worker_memory_bytes: int = Field(default=2 << 30, ge=256 << 20)
    """Address space of one worker."""
