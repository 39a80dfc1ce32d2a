"""Any sequence of events: the balancer and a brute-force model decide, count and end alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmath._C import balancer as core
from agentmath.rollout.balancer import Balancer, BalancerSettings
from balancer_model import SLOT, Ask, Engine, Model

POLICIES = ("agentmath", "breakable", "round_robin", "least", "power_of_two", "consistent_hash", "radix", "score")
ENDINGS = st.sampled_from(("finished", "failed", "cancelled"))
BLOCK = 4


class Machine(RuleBasedStateMachine):
    """Sessions 1..5 grow; 0 is none. Lengths are small, so that weights tie and caches overlap often."""

    policies: tuple[str, ...] = POLICIES

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        numbers = {
            "policy": data.draw(st.sampled_from(self.policies)),
            "base_tokens": data.draw(st.sampled_from((1, 8, 4096))),
            "base_weight": data.draw(st.sampled_from((0.0, 0.25, 1.0))),
            "miss_weight": data.draw(st.sampled_from((0.0, 0.5, 3.0))),
            "kv_share": data.draw(st.sampled_from((0.5, 0.8, 1.0))),
            "max_sessions": data.draw(st.sampled_from((1, 3, 100))),
            "breaker_failures": data.draw(st.sampled_from((0, 1, 2))),
            "breaker_nanoseconds": data.draw(st.sampled_from((0, 5))),
            "radix_gap": data.draw(st.sampled_from((0, 2))),
            "seed": data.draw(st.sampled_from((0, (1 << 64) - 1))),
        }
        self.now = 0
        given = BalancerSettings(**numbers, block_tokens=BLOCK, index_bytes=1 << 16)
        self.balancer = Balancer(given, clock=lambda: self.now)
        self.model = Model(**numbers, block=BLOCK)
        self.contexts: dict[int, tuple[int, ...]] = {}
        self.given: list[int] = []
        self.fresh = 1000
        for _ in range(data.draw(st.integers(0, 3))):
            self.add_engine(1.0, 0, 0)

    # ---- engines ----

    @rule(capacity=st.sampled_from((0.5, 1.0, 2.0)), kv_tokens=st.sampled_from((0, 0, 40)), version=st.integers(0, 1))
    def add_engine(self, capacity: float, kv_tokens: int, version: int) -> None:
        if len(self.model.engines) == 5:
            return
        number = self.balancer.add_engine(capacity=capacity, kv_tokens=kv_tokens, version=version)
        self.model.engines.append(Engine(capacity, kv_tokens, version))
        assert number == len(self.model.engines) - 1

    def some_engine(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, len(self.model.engines) - 1))

    @precondition(lambda self: self.model.engines)
    @rule(data=st.data(), what=st.sampled_from(("up", "down", "drain", "version", "clear")))
    def change_engine(self, data: st.DataObject, what: str) -> None:
        k = self.some_engine(data)
        engine = self.model.engines[k]
        if what == "up":
            self.balancer.engine_up(k)
            engine.state = "up"
            self.model.close_breaker(k)
        elif what == "down":
            assert self.balancer.engine_down(k) == self.model.engine_down(k)
        elif what == "drain":
            self.balancer.drain(k)
            engine.state = "draining" if engine.state == "up" else engine.state
        elif what == "version":
            engine.version = data.draw(st.integers(0, 2))
            self.balancer.set_version(k, engine.version)
            self.model.void(k)
        else:
            self.balancer.clear_cache(k)
            self.model.void(k)

    @precondition(lambda self: self.model.engines and self.contexts)
    @rule(data=st.data())
    def engine_drops_blocks(self, data: st.DataObject) -> None:
        k, session = self.some_engine(data), data.draw(st.sampled_from(sorted(self.contexts)))
        tokens = self.contexts[session]
        kept = data.draw(st.integers(0, len(tokens)))
        self.balancer.drop_cached(k, tokens, kept_tokens=kept, session=session or None)
        self.model.drop_cached(k, Ask(session, tokens, len(tokens)), kept)

    # ---- requests ----

    @rule(session=st.integers(0, 5), growth=st.integers(0, 20), data=st.data())
    def acquire(self, session: int, growth: int, data: st.DataObject) -> None:
        """A session's context grows; sometimes it is another one. Two prompts are shared by all."""
        before = self.contexts.get(session, ())
        if session == 0 or not before or data.draw(st.integers(0, 9)) == 0:
            before = tuple(range(data.draw(st.sampled_from((0, 3, 8, 17))))) if data.draw(st.booleans()) else ()
            if session and self.contexts.get(session):
                before = tuple(range(self.fresh, self.fresh + 5))
        self.fresh += 50
        tokens = before + tuple(range(self.fresh, self.fresh + growth))
        self.contexts[session] = tokens
        least = data.draw(st.sampled_from((core.Balancer.ANY_VERSION, core.Balancer.ANY_VERSION, 1)))
        ask = Ask(session, tokens, len(tokens), min_version=least)
        self.compare(ask, self.balancer.acquire(np.array(tokens, np.int32), session=session or None, min_version=least))

    @rule(session=st.integers(0, 5), length=st.integers(0, 50), group=st.integers(0, 2))
    def acquire_by_length(self, session: int, length: int, group: int) -> None:
        ask = Ask(session, None, length, group, min(length, 10))
        self.contexts.pop(session, None)
        given = self.balancer.acquire_length(length, session=session or None, group=group, group_tokens=min(length, 10))
        self.compare(ask, given)

    def compare(self, ask: Ask, placement: core.Placement) -> None:
        answer = self.model.acquire(ask, self.now)
        assert placement.admission == answer.admission
        if answer.admission != "placed":
            assert not any(self.is_idle_and_fits(k, ask) for k in range(len(self.model.engines)))
            return
        assert (placement.engine, placement.hit_tokens) == (answer.engine, answer.hit)
        assert (placement.is_new, placement.has_moved) == (answer.is_new, answer.has_moved)
        assert placement.version == self.model.engines[answer.engine].version >= ask.min_version
        assert self.model.engines[answer.engine].state == "up"
        assert placement.lease not in self.given
        self.model.bind(placement.lease, ask, answer.engine)
        self.given.append(placement.lease)

    def is_idle_and_fits(self, k: int, ask: Ask) -> bool:
        """What no refusal may leave unused, unless a strict session waits for its own engine."""
        view = self.balancer.look(k)
        return (
            (view.state, view.breaker, view.num_running + view.num_paused) == ("up", "closed", 0)
            and view.version >= ask.min_version
            and ask.length <= (view.kv_tokens or ask.length)
            and (self.model.policy != "agentmath" or self.model.home(ask.session) < 0)
        )

    @precondition(lambda self: self.given)
    @rule(data=st.data(), tokens=st.integers(0, 60))
    def progress(self, data: st.DataObject, tokens: int) -> None:
        number = data.draw(st.sampled_from(self.given))
        lease = self.model.leases.get(number)
        assert self.balancer.progress(number, tokens) == (lease is not None)
        if lease is not None:
            lease.tokens, lease.weight = tokens, self.model.weight(tokens)

    @precondition(lambda self: self.given)
    @rule(data=st.data(), ending=ENDINGS)
    def release(self, data: st.DataObject, ending: str) -> None:
        """Of any lease that was ever given: late and double ends change nothing."""
        number = data.draw(st.sampled_from(self.given))
        assert self.balancer.release(number, ending) == self.model.release(number, ending, self.now)  # type: ignore[arg-type]

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.given))
        assert self.balancer.pause(number) == self.model.pause(number, self.now)

    @rule(session=st.integers(1, 6))
    def end_session(self, session: int) -> None:
        assert self.balancer.end_session(session) == self.model.end_session(session)
        self.contexts.pop(session, None)

    @rule(nanoseconds=st.integers(-3, 20))
    def time_passes(self, nanoseconds: int) -> None:
        self.now += nanoseconds

    # ---- what holds at any time ----

    @invariant()
    def sums_are_those_of_the_leases(self) -> None:
        if not hasattr(self, "balancer"):
            return
        self.balancer._core.verify()
        for k, engine in enumerate(self.model.engines):
            view, bound = self.balancer.look(k), self.model.of_engine(k)
            assert view.weight_units == sum(lease.weight for lease in bound)
            assert view.context_tokens == sum(lease.tokens for lease in bound)
            assert (view.num_paused, view.num_running) == (
                sum(lease.paused for lease in bound),
                sum(not lease.paused for lease in bound),
            )
            assert (view.state, view.breaker) == (engine.state, engine.breaker)
            assert view.num_blocks == len(engine.prefixes)
        stats = self.balancer.stats()
        assert (stats.num_leases, stats.num_sessions) == (len(self.model.leases), len(self.model.sessions))
        for number in self.given:
            lease = self.model.leases.get(number)
            assert self.balancer._core.engine_of(number) == (-1 if lease is None else lease.engine)

    def teardown(self) -> None:
        """Whatever happened: when all leases have ended, nothing is bound."""
        if not hasattr(self, "balancer"):
            return
        for number in self.given:
            self.balancer.release(number, "cancelled")
        for k in range(len(self.model.engines)):
            view = self.balancer.look(k)
            assert (view.weight_units, view.context_tokens, view.num_running, view.num_paused) == (0, 0, 0, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_any_sequence_of_events_is_as_in_the_model(policy: str) -> None:
    machine = type("MachineOf" + policy, (Machine,), {"policies": (policy,)})
    machine.TestCase.settings = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    )
    machine.TestCase().runTest()


def test_lease_numbers_name_their_slot() -> None:
    balancer = Balancer(BalancerSettings())
    balancer.add_engine()
    first = balancer.acquire([]).lease
    second = balancer.acquire([]).lease
    assert (first & SLOT, second & SLOT) == (0, 1)
