from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from agentmath.engines.requests import Session  # noqa: E402
from agentmath.engines.slots import SlotTable  # noqa: E402
from agentmath_kernels.rows import CacheShape, KeyValueCache  # noqa: E402


def table(num_slots: int = 3) -> SlotTable:
    shape = CacheShape(num_layers=2, num_key_value_heads=1, head_dim=2, dtype=torch.float32, device=torch.device("cpu"))
    return SlotTable(KeyValueCache(shape, num_slots=num_slots, num_positions=4))


def owned(slots: SlotTable, key: int, *, last_step: int = 0) -> Session:
    """A session with two cached positions that hold its key."""
    session = Session(key=key, last_step=last_step)
    slot = slots.acquire(session, 0)
    slots.cache.data[:, :, slot, :2] = key
    session.num_cached = 2
    return session


def content(slots: SlotTable, slot: int | None) -> list[float]:
    assert slot is not None
    return slots.cache.data[:, :, slot, :2].unique().tolist()


def test_the_lowest_free_slot_is_given_first() -> None:
    slots = table()
    a, b = owned(slots, 1), owned(slots, 2)
    assert (a.slot, b.slot) == (0, 1)
    slots.release(a)
    assert a.slot is None
    assert owned(slots, 3).slot == 0


def test_the_session_idle_for_longest_gives_way() -> None:
    slots = table()
    old, older, young = owned(slots, 1, last_step=5), owned(slots, 2, last_step=3), owned(slots, 3, last_step=9)
    new = owned(slots, 4)
    assert (older.slot, older.num_cached) == (None, 0)
    assert new.slot == 1
    assert (old.slot, young.slot) == (0, 2)


def test_ties_among_idle_sessions_are_broken_by_key() -> None:
    slots = table(2)
    first, second = owned(slots, 8), owned(slots, 7)
    owned(slots, 9)
    assert second.slot is None
    assert first.slot == 0


def test_an_exchange_moves_owners_with_their_content() -> None:
    slots = table()
    a, b = owned(slots, 1), owned(slots, 2)
    slots.exchange(0, 1)
    assert (a.slot, b.slot) == (1, 0)
    assert content(slots, a.slot) == [1]
    assert content(slots, b.slot) == [2]
    slots.exchange(2, 0)
    assert b.slot == 2
    assert content(slots, b.slot) == [2]
    assert slots.owner(0) is None


def test_exchanging_nothing_changes_nothing() -> None:
    slots = table()
    a = owned(slots, 1)
    slots.exchange(0, 0)
    slots.exchange(1, 2)
    assert a.slot == 0
    assert content(slots, 0) == [1]


def test_clear_frees_every_slot() -> None:
    slots = table()
    sessions = [owned(slots, k) for k in (1, 2, 3)]
    slots.clear()
    assert [s.slot for s in sessions] == [None] * 3
    assert owned(slots, 4).slot == 0
