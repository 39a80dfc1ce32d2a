"""What each mode may do and is told."""

from __future__ import annotations

from agentmath.config.prompt import PromptSection
from agentmath.config.rollout import RolloutSection
from agentmath.evaluation.modes import MODES
from agentmath.formats.dialects import DIALECTS

TOLD = PromptSection(instructions=True, system="Be exact.")


def test_without_a_tool_nobody_is_told_of_one_but_of_the_answer() -> None:
    for name, dialect in DIALECTS.items():
        prompt = MODES["r_only"].prompt(TOLD.model_copy(update={"dialect": name}))
        assert prompt.system.startswith("Be exact.") and dialect.answer_form in prompt.system
        assert not prompt.instructions and dialect.call_open not in prompt.system


def test_a_trained_model_is_told_nothing_new() -> None:
    trained = PromptSection(system="Solve.")
    assert all(mode.prompt(trained) == trained for mode in MODES.values())


def test_only_r_code_may_call_and_samples_are_whole() -> None:
    section = RolloutSection(mode="segments", segment_sampled_tokens=8, max_tool_calls=3)
    calls = {name: mode.rollout(section).max_tool_calls for name, mode in MODES.items()}
    assert calls == {"r_only": 0, "r_code": 3}
    assert {mode.rollout(section).segment_sampled_tokens for mode in MODES.values()} == {0}
