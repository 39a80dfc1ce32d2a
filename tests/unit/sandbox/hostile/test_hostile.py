"""Every attack, one by one, under all layers that this machine gives; after each the next snippet must be right."""

from __future__ import annotations

import asyncio

import pytest
from attack import Attack, try_attack
from attack_list import ATTACKS, OF_OUR_OWN, OF_THE_LIST
from canaries import Canaries

from agentmath.sandbox.local import LocalSandbox


def ids(attacks: list[Attack]) -> list[str]:
    return [attack.id for attack in attacks]


def test_every_line_of_the_open_list_is_tried() -> None:
    assert {attack.number for attack in ATTACKS} == set(range(71))


def test_each_attack_has_a_name_of_its_own() -> None:
    assert len(set(ids(ATTACKS))) == len(ATTACKS)


@pytest.mark.parametrize("attack", OF_THE_LIST, ids=ids(OF_THE_LIST))
def test_the_open_list(attack: Attack, sandbox: LocalSandbox, canaries: Canaries) -> None:
    assert asyncio.run(try_attack(attack, sandbox, canaries)) == []


@pytest.mark.parametrize("attack", OF_OUR_OWN, ids=ids(OF_OUR_OWN))
def test_kinds_that_the_list_does_not_name(attack: Attack, sandbox: LocalSandbox, canaries: Canaries) -> None:
    assert asyncio.run(try_attack(attack, sandbox, canaries)) == []
