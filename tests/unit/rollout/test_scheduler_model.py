"""Any sequence of events: the C++ scheduler decides as its twin does, and the laws of scheduling hold."""

from __future__ import annotations

from typing import Any

from hypothesis import settings as budget
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmath._C import rollout
from scheduler_twin import ACTIVE, ENDS, Life, Said, Twin

SMALL = st.integers(0, 3)
OUTCOMES = st.sampled_from(list(rollout.Outcome))


def spoken(verdict: rollout.Verdict) -> Said:
    return verdict.action, verdict.reason, verdict.max_new_tokens, verdict.ends_pass


class Scheduling(RuleBasedStateMachine):
    """Drives both with the same events."""

    core: rollout.Scheduler
    twin: Twin

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.settings = s = rollout.Settings()
        budgets = rollout.Budgets()
        budgets.max_sampled_tokens, budgets.max_context_tokens = 12, 40
        budgets.max_tool_calls, budgets.max_segments = 2, 3
        s.stages = [budgets]
        s.mode = data.draw(
            st.sampled_from([rollout.Mode.BATCH, rollout.Mode.SEGMENTS, rollout.Mode.QUOTA, rollout.Mode.ASYNC])
        )
        s.overdue = data.draw(st.sampled_from([rollout.Overdue.WAIT, rollout.Overdue.TRUNCATE, rollout.Overdue.CANCEL]))
        s.groups_per_step, s.group_size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
        s.segment_sampled_tokens, s.segment_tool_calls = (
            data.draw(st.sampled_from([0, 4])),
            data.draw(st.integers(0, 1)),
        )
        s.over_submission = data.draw(st.sampled_from([1.0, 1.5, 2.0, 3.4]))
        s.max_in_flight = data.draw(st.sampled_from([0, 1, 5]))
        s.max_lag = data.draw(st.integers(-1 if s.max_in_flight else 0, 3))
        s.kv_budget_tokens, s.max_running = data.draw(st.sampled_from([0, 25, 60])), data.draw(st.sampled_from([0, 2]))
        s.max_retries, s.log_capacity = data.draw(SMALL), 10_000
        self.core, self.twin = rollout.Scheduler(s), Twin(s, budget=s.kv_budget_tokens)
        self.now, self.next_group, self.num_logged = 0, 0, 0
        self.stale: list[int] = []
        self.ends: dict[int, rollout.State] = {}
        self.released: set[int] = set()
        self.cancelled: list[int] = []
        self.born: dict[int, int] = {}
        """Version at which each trajectory has its first token."""
        self._begin_round(s.groups_per_step)

    def _begin_round(self, wanted: int) -> None:
        self.core.begin_round(wanted, self.now)
        self.twin.begin_round(wanted)

    def _pick(self, data: st.DataObject, state: rollout.State) -> Life:
        return data.draw(st.sampled_from([t for t in self.twin.lives if t.state is state]))

    def _heard(self, life: Life, ticket: int, verdict: rollout.Verdict, expected: Said) -> None:
        assert spoken(verdict) == expected
        assert verdict.ticket == life.ticket
        self.stale.append(ticket)

    @rule(size=st.integers(1, 3), prompt=st.sampled_from([0, 10, 24, 45]))
    def decide(self, size: int, prompt: int) -> None:
        """One decision is carried out; new groups are of this shape."""
        self._submit(self._decide().num_groups_wanted, size, min(prompt, self.twin.budget or prompt))

    def _decide(self) -> rollout.Decisions:
        tickets = {t.id: t.ticket for t in self.twin.active}
        done, expected = self.core.decide(self.now), self.twin.decide()
        found = {
            "wanted": done.num_groups_wanted,
            "grants": [(g.id, spoken(g.verdict)) for g in done.grants],
            "ended": sorted(e.id for e in done.ended),
            "over": done.round_is_over,
        }
        assert found == {**expected, "ended": sorted([*expected["ended"], *self.cancelled])}
        self.cancelled = []
        by_id = {t.id: t for t in self.twin.lives}
        assert [g.verdict.ticket for g in done.grants] == [by_id[g.id].ticket for g in done.grants]
        self.stale += [tickets[e] for e in expected["ended"] if e in tickets]
        self._check_line(done)
        return done

    def _check_line(self, done: rollout.Decisions) -> None:
        """Work is conserved and nobody is overtaken: who still waits is kept out by a bound alone (invariants 5, 6)."""
        line, active, s = self.twin.line(), self.twin.active, self.settings
        if not line or not self.twin.is_open or done.round_is_over:
            return
        assert active
        is_full = bool(s.max_running) and len(active) >= s.max_running
        assert is_full or sum(t.context for t in active) + line[0].context > self.twin.budget > 0

    def _submit(self, count: int, size: int, prompt: int) -> None:
        for _ in range(min(count, 6)):
            self.core.submit(self.next_group, prompt, size, self.now)
            self.twin.submit(self.next_group, prompt, size)
            self.next_group += 1

    @precondition(lambda self: any(t.state is rollout.State.RUNNING for t in self.twin.lives))
    @rule(
        data=st.data(), outcome=st.sampled_from(list(rollout.Outcome)), share=st.floats(0, 1), cut=SMALL, inserted=SMALL
    )
    def generate(self, data: st.DataObject, outcome: rollout.Outcome, share: float, cut: int, inserted: int) -> None:
        life = self._pick(data, rollout.State.RUNNING)
        room = min(12 - life.sampled, 40 - life.context)
        fresh = int(share * room)
        kept = max(fresh - cut, 0)
        context, sampled, ticket = life.context + kept + inserted, life.sampled + kept, life.ticket
        version = self.twin.version if fresh else -1
        if fresh:
            self.born.setdefault(life.id, version)
        verdict = self.core.generated(ticket, context, sampled, fresh, version, version, outcome, self.now)
        self._heard(life, ticket, verdict, self.twin.generated(life, context, sampled, fresh, outcome))

    @precondition(lambda self: any(t.state is rollout.State.TOOL for t in self.twin.lives))
    @rule(data=st.data(), size=st.integers(0, 9))
    def answer(self, data: st.DataObject, size: int) -> None:
        life = self._pick(data, rollout.State.TOOL)
        ticket = life.ticket
        verdict = self.core.answered(ticket, life.context + size, life.sampled, self.now)
        self._heard(life, ticket, verdict, self.twin.answered(life, life.context + size))

    @precondition(lambda self: bool(self.twin.active))
    @rule(data=st.data(), owes=st.booleans())
    def lose(self, data: st.DataObject, owes: bool) -> None:
        """An engine or a tool dies."""
        life = data.draw(st.sampled_from(self.twin.active))
        owes, ticket = owes and life.state is rollout.State.TOOL, life.ticket
        verdict = self.core.lost(ticket, life.context, life.sampled, owes, self.now)
        self._heard(life, ticket, verdict, self.twin.lost(life, owes))

    @precondition(lambda self: bool(self.stale))
    @rule(data=st.data())
    def report_again(self, data: st.DataObject) -> None:
        """Duplicate and late reports change nothing (invariant 11)."""
        before, ticket = self.core.stats(), data.draw(st.sampled_from(self.stale))
        for verdict in (
            self.core.generated(ticket, 1, 1, 1, 0, 0, rollout.Outcome.FINISHED, self.now),
            self.core.answered(ticket, 1, 1, self.now),
            self.core.lost(ticket, 1, 1, False, self.now),
        ):
            assert verdict.action is rollout.Action.IGNORE
        assert self.core.stats().num_transitions == before.num_transitions
        assert self.core.stats().num_late_reports == before.num_late_reports + 3

    @precondition(lambda self: bool(self.twin.lives))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.twin.lives))
        ticket, is_active = life.ticket, life.state in ACTIVE
        has_ended = self.twin.cancel(life)
        assert self.core.cancel(life.id, self.now) == has_ended
        self.stale += [ticket] if is_active else []
        self.cancelled += [life.id] if has_ended else []
        done = self._decide()
        assert (life.id in done.interrupts) == is_active
        self._submit(done.num_groups_wanted, 2, 10)

    @rule(wanted=SMALL)
    def end_round(self, wanted: int) -> None:
        """Nothing before the round is over; then what it wanted, oldest first, and the weights are new."""
        taken, expected = self.core.take_groups(), self.twin.take()
        assert [r.group for r in taken] == expected
        for one in taken:
            assert one.group not in self.released
            self.released.add(one.group)
            if self.twin.ends_by_count() and self.settings.max_lag >= 0 and one.oldest_version >= 0:
                assert self.twin.version - one.oldest_version <= self.settings.max_lag  # invariant 4
        if not self.twin.is_open:
            self.twin.version += 1
            self.core.set_version(self.twin.version, self.now)
            self._begin_round(min(wanted, self.settings.groups_per_step) if taken else self.settings.groups_per_step)

    @rule()
    def interrupt(self) -> None:
        assert self.core.interrupt(self.now) == self.twin.interrupt()

    @precondition(lambda self: self.twin.is_closing)
    @rule()
    def go_on(self) -> None:
        self._begin_round(self.settings.groups_per_step)

    @rule(tokens=st.sampled_from([25, 30, 80]))
    def change_budget(self, tokens: int) -> None:
        """Engines come and go."""
        self.core.set_kv_budget(tokens)
        self.twin.budget = tokens

    @rule()
    def restart(self) -> None:
        """Another process goes on from a snapshot; equal states have equal bytes."""
        data = self.core.snapshot()
        assert self.core.snapshot() == data
        self.stale = [*self.stale, *(t.ticket for t in self.twin.active)]
        self.core = rollout.Scheduler(self.settings)
        self.core.restore(data)
        self.num_logged = self.core.stats().num_transitions - len(self.core.take_log())
        self.num_logged = self.core.stats().num_transitions
        self.twin.restart()
        self._begin_round(self.settings.groups_per_step)

    @rule(step=st.integers(-5, 50))
    def pass_time(self, step: int) -> None:
        """Clocks may go backwards."""
        self.now = max(self.now + step, 0)

    @invariant()
    def every_trajectory_is_where_the_twin_has_it(self) -> None:
        if not hasattr(self, "twin"):
            return
        stats = self.core.stats()
        counts = [sum(t.state is state for t in self.twin.lives) for state in rollout.State]
        assert list(stats.num_in_state) == counts  # invariant 1: one state each
        assert stats.num_bound_tokens == sum(t.context for t in self.twin.active)  # invariant 2
        assert stats.num_groups_ready == len(self.twin.ready)
        for t in self.twin.lives:
            view = self.core.look(t.id)
            found = (view.state, view.reason, view.context_tokens, view.sampled_tokens, view.num_tool_calls)
            assert found == (t.state, t.reason, t.context, t.sampled, t.calls)
            assert (view.num_segments, view.num_retries, view.ticket) == (t.segments, t.retries, t.ticket)
            assert view.oldest_version == t.oldest == self.born.get(t.id, -1)

    @invariant()
    def transitions_are_numbered_and_ends_are_final(self) -> None:
        if not hasattr(self, "twin"):
            return
        for entry in self.core.take_log():
            self.num_logged += 1
            assert entry.sequence == self.num_logged
            assert entry.id not in self.ends, "left a final state"
            assert entry.from_state not in ENDS
            if entry.to_state in ENDS:
                self.ends[entry.id] = entry.to_state

    def teardown(self) -> None:
        """Let everything end: each trajectory does so once, and nothing is left."""
        if not hasattr(self, "twin"):
            return
        self.core.close_intake()
        for _ in range(1000):
            stats = self.core.stats()
            if stats.num_groups_ready + stats.num_groups_in_flight == 0:
                break
            self.core.begin_round(self.settings.groups_per_step, self.now)
            self._drain()
            self.released |= {r.group for r in self.core.take_groups()}
        assert self.released == set(range(self.next_group))
        stats = self.core.stats()
        assert stats.num_submitted == stats.num_done + stats.num_failed + stats.num_cancelled
        assert (stats.num_bound_tokens, sum(stats.num_in_state)) == (0, 0)

    def _drain(self) -> None:
        under_way: dict[int, Any] = {}
        for t in self.twin.lives:
            if t.id in self.core and (view := self.core.look(t.id)).ticket:
                under_way[view.ticket] = view.state
        for _ in range(1000):
            todo = self.core.decide(self.now)
            under_way |= {g.verdict.ticket: self.core.look(g.id).state for g in todo.grants}
            if todo.round_is_over:
                return
            for ticket, state in list(under_way.items()):
                if state is rollout.State.TOOL:
                    verdict = self.core.answered(ticket, 9, 9, self.now)
                else:
                    verdict = self.core.generated(ticket, 9, 9, 0, -1, -1, rollout.Outcome.FINISHED, self.now)
                under_way = {verdict.ticket: rollout.State.RUNNING, **under_way} if verdict.ticket else under_way
                del under_way[ticket]
        raise AssertionError("the round does not end: " + self.core.dump(self.now))


Scheduling.TestCase.settings = budget(max_examples=150, stateful_step_count=40, deadline=None)
TestScheduling = Scheduling.TestCase
