from __future__ import annotations

from agentmath.data.two_step import two_step_patterns


def test_every_kind_has_several_wordings_with_all_its_numbers() -> None:
    for pattern in two_step_patterns(2):
        assert len(pattern.texts) >= 2
        assert all(all(hole in text for hole in ("{a}", "{b}", "{c}")) for text in pattern.texts)


def test_numbers_that_make_no_sense_do_not_fit() -> None:
    fits = {p.expression: p.fits for p in two_step_patterns(2)}
    assert not fits["{a}-{b}+{c}"](3, 4, 9)
    assert not fits["({a}+{b})/{c}"](3, 4, 2)
    assert fits["({a}-{b})/{c}"](9, 3, 2)
