"""Who owns which slot of the key/value cache. Decoding rows fill slots 0 to A - 1; everybody else lies above."""

from __future__ import annotations

from agentmath.engines.requests import Session
from agentmath_kernels.rows import KeyValueCache


class SlotTable:
    """Owners of slots; what moves between slots moves here."""

    def __init__(self, cache: KeyValueCache) -> None:
        self.cache = cache
        self._owners: list[Session | None] = [None] * cache.num_slots

    def owner(self, slot: int) -> Session | None:
        return self._owners[slot]

    def acquire(self, session: Session, first: int) -> int:
        """Give the session the lowest free slot from `first` on, else that of the session idle for longest.

        The caller keeps fewer busy sessions than there are slots.
        """
        slot = next((i for i in range(first, len(self._owners)) if self._owners[i] is None), None)
        if slot is None:
            idle = [o for o in self._owners[first:] if o is not None and not o.is_busy]
            loser = min(idle, key=lambda s: (s.last_step, s.key))
            assert loser.slot is not None
            slot = loser.slot
            self.release(loser)
        self._owners[slot] = session
        session.slot = slot
        return slot

    def release(self, session: Session) -> None:
        """Free the session's slot, if it has one."""
        if session.slot is not None:
            self._owners[session.slot] = None
            session.slot, session.num_cached = None, 0

    def exchange(self, a: int, b: int) -> None:
        """Swap owners and contents of two slots; an unowned slot's content is not kept."""
        first, second = self._owners[a], self._owners[b]
        if a == b or (first is None and second is None):
            return
        if first is None or second is None:
            mover = first or second
            assert mover is not None
            source, target = (a, b) if second is None else (b, a)
            self.cache.copy(source, target, mover.num_cached)
        else:
            self.cache.swap(a, b, max(first.num_cached, second.num_cached))
        self._owners[a], self._owners[b] = second, first
        if first is not None:
            first.slot = b
        if second is not None:
            second.slot = a

    def clear(self) -> None:
        """Free every slot."""
        for owner in self._owners:
            if owner is not None:
                self.release(owner)
