"""Compiled core of agentmath. Each room is a submodule; here a class, since one stub file cannot hold modules."""

from collections.abc import Sequence, Set
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

class sandbox:
    """What runs between fork and model code. Linux only; functions raise RuntimeError with the system's reason."""

    @staticmethod
    def probe_layers(scratch_base: str, wants_user_namespace: bool) -> list[tuple[str, bool, str]]:
        """Rows (layer, available, why not); each layer is tried in a throw-away child."""

    @staticmethod
    def probe_uid_drop(id: int, needed: Sequence[str]) -> tuple[str, bool, str]:
        """Row for giving up root: can uid `id` read the paths in `needed`?"""

    @staticmethod
    def drop_to(id: int) -> None:
        """Give up root for uid and gid `id`."""

    @staticmethod
    def enter_namespaces(layers: Set[str]) -> None:
        """Move this single-threaded process into those of the layers that are namespaces."""

    @staticmethod
    def close_mounts(scratch_base: str) -> None:
        """Make all mounts read-only, hide /proc, put a tmpfs at scratch_base."""

    class Cgroup:
        """The control group that this process is in."""

    @staticmethod
    def enter_cgroup(trainer: int) -> sandbox.Cgroup:
        """Make a control group named after the trainer's pid, see that it acts, and move this process into it."""

    @staticmethod
    def serve_zygote(
        *,
        control: int,
        trainer: int,
        statm: int,
        oom_score: int,
        cgroup: sandbox.Cgroup | None,
        layers: Set[str],
        scratch_base: str,
        readable: Sequence[str],
    ) -> bool:
        """Fork and reap on request; True in each hardened child, False at the end.

        control: SOCK_SEQPACKET to the supervisor. trainer: a pidfd whose end ends all, or -1. statm and oom_score: this
        process's /proc/self/statm and oom_score_adj, or -1. layers: those in force.
        """

    @staticmethod
    def hide_memory() -> None:
        """Make this process's memory unreadable to others of its uid."""

    @staticmethod
    def encode_report(outcome: int, sequence: int, exit_code: int, value: bytes | None, error: bytes) -> bytes:
        """Frame of a child's report."""

    class Bounds:
        """Limits on one execution, as numbers."""

        def __init__(
            self, *, cpu_seconds: float, wall_seconds: float, memory_bytes: int, output_bytes: int, file_bytes: int
        ) -> None: ...

    class Supervisor:
        """Runs executions on a thread of its own. Every method may be called from any thread.

        Results are tuples that begin with the number of the request and what happened: (0, "ready", description),
        (number, "failed", why) with number 0 for everything, (number, "closed", ""), and for executions
        (number, status, facts, texts), the names of both as in ToolResult.
        """

        def __init__(
            self,
            *,
            command: Sequence[str],
            environment: Sequence[str],
            kinds: Sequence[tuple[str, Sequence[str]]],
            bounds: sandbox.Bounds,
            num_workers: int,
            queue_seconds: float,
            forks_per_zygote: int,
        ) -> None:
            """Start the thread and the first zygote. kinds: set-up message and loaded modules of each zygote."""

        def submit(
            self,
            code: bytes,
            input: bytes,
            bounds: sandbox.Bounds,
            *,
            session: int,
            seed: int | None,
            is_awaited: bool,
        ) -> int:
            """Number of the execution; session 0 for none. is_awaited: the result is kept for wait()."""

        def open_session(self) -> int: ...
        def close_session(self, session: int) -> int:
            """Number of the request."""

        def cancel(self, number: int) -> None:
            """End an execution, its session included; its result is still given."""

        @property
        def results_fd(self) -> int:
            """Readable whenever take() has results."""

        def take(self) -> list[tuple[Any, ...]]: ...
        def wait(self, number: int, seconds: float) -> tuple[Any, ...] | None:
            """The awaited result; None if it has not come within that time."""

        def forget(self, number: int) -> None:
            """Nobody will wait for this result any more."""

        def close(self) -> None:
            """End all processes; returns when they are gone."""

class decode:
    """Operators between the matrix products of one decoding step: float32, C order, results written in place."""

    @staticmethod
    def supports_width(width: int) -> bool: ...
    @staticmethod
    def supports_head_size(head_size: int) -> bool: ...
    @staticmethod
    def rms_norm(x: Floats, weight: Floats, eps: float, out: Floats) -> None: ...
    @staticmethod
    def norm_and_rotate(heads: Floats, weight: Floats | None, eps: float, cos: Floats, sin: Floats) -> None: ...
    @staticmethod
    def swiglu(gate: Floats, up: Floats) -> None: ...
    @staticmethod
    def attend_one_token(
        query: Floats,
        keys: Floats,
        values: Floats,
        contexts: npt.NDArray[np.int64],
        scale: float,
        threads: int,
        out: Floats,
    ) -> None: ...

class loss:
    """Rows of vocabulary logits, float32 on the CPU. logits [C, V] in C order; everything else [C]."""

    class Figures:
        """What is read of each row; entropy only where it is wanted."""

        def __init__(self, peak: Floats, log_sum: Floats, logprob: Floats, entropy: Floats | None) -> None: ...

    @staticmethod
    def read_rows(
        logits: Floats, targets: npt.NDArray[np.int64], inverse_temperature: float, figures: loss.Figures, threads: int
    ) -> None:
        """Fill figures. Raises ValueError when the shapes or targets cannot be."""

    @staticmethod
    def write_gradients(
        logits: Floats,
        targets: npt.NDArray[np.int64],
        inverse_temperature: float,
        figures: loss.Figures,
        by_logprob: Floats,
        by_entropy: Floats | None,
        threads: int,
    ) -> None:
        """Put the gradient in the place of the logits. by_logprob, by_entropy: slopes of the loss in each row's
        figures. Raises ValueError when the shapes or targets cannot be."""

class rollout:
    """What may run, and when: csrc/rollout/scheduler.h says what everything means. Times are nanoseconds; the id of a
    trajectory is its group << 16 | its index. Wrong arguments raise ValueError."""

    class Mode(Enum):
        BATCH = 0
        SEGMENTS = 1
        QUOTA = 2
        ASYNC = 3

    class Overdue(Enum):
        WAIT = 0
        TRUNCATE = 1
        CANCEL = 2

    class State(Enum):
        NEW = 0
        QUEUED = 1
        RUNNING = 2
        TOOL = 3
        PARKED = 4
        DONE = 5
        FAILED = 6
        CANCELLED = 7

    class Reason(Enum):
        NONE = 0
        FINISHED = 1
        LENGTH = 2
        MAX_TOOL_CALLS = 3
        SEGMENT = 4
        INTERRUPTED = 5
        OVERDUE = 6
        LOST = 7
        LATE = 8
        CANCELLED = 9
        RESTARTED = 10

    class Outcome(Enum):
        CONTINUE = 0
        CALL = 1
        FINISHED = 2
        LENGTH = 3
        ABORTED = 4

    class Action(Enum):
        GENERATE = 0
        CALL = 1
        PARK = 2
        QUEUE = 3
        END = 4
        IGNORE = 5

    class Budgets:
        max_sampled_tokens: int
        max_context_tokens: int
        max_tool_calls: int
        max_segments: int

    class Settings:
        mode: rollout.Mode
        groups_per_step: int
        group_size: int
        stages: list[rollout.Budgets]
        """Read as a copy: assign a whole list."""
        truncation_rate: float
        window_steps: int
        segment_sampled_tokens: int
        segment_tool_calls: int
        over_submission: float
        max_in_flight: int
        max_lag: int
        overdue: rollout.Overdue
        kv_budget_tokens: int
        max_running: int
        max_retries: int
        round_nanoseconds: int
        request_nanoseconds: int
        tool_nanoseconds: int
        log_capacity: int

    class Verdict:
        """What a trajectory is to do now."""

        @property
        def action(self) -> rollout.Action: ...
        @property
        def reason(self) -> rollout.Reason: ...
        @property
        def ticket(self) -> int: ...
        @property
        def max_new_tokens(self) -> int: ...
        @property
        def ends_pass(self) -> bool: ...
        @property
        def needs_decision(self) -> bool: ...

    class Grant:
        """A trajectory that was waiting and may go on."""

        @property
        def id(self) -> int: ...
        @property
        def verdict(self) -> rollout.Verdict: ...

    class Ended:
        """A trajectory that ended without a report of its own."""

        @property
        def id(self) -> int: ...
        @property
        def state(self) -> rollout.State: ...
        @property
        def reason(self) -> rollout.Reason: ...

    class Decisions:
        """What the driver has to do."""

        @property
        def num_groups_wanted(self) -> int: ...
        @property
        def grants(self) -> list[rollout.Grant]: ...
        @property
        def interrupts(self) -> list[int]: ...
        @property
        def ended(self) -> list[rollout.Ended]: ...
        @property
        def has_more_grants(self) -> bool: ...
        @property
        def round_is_over(self) -> bool: ...
        @property
        def round_is_late(self) -> bool: ...

    class Released:
        """A group whose trajectories have all ended."""

        @property
        def group(self) -> int: ...
        @property
        def oldest_version(self) -> int: ...
        @property
        def num_done(self) -> int: ...
        @property
        def num_truncated(self) -> int: ...
        @property
        def num_failed(self) -> int: ...
        @property
        def num_cancelled(self) -> int: ...

    class Transition:
        """One change of state."""

        @property
        def sequence(self) -> int: ...
        @property
        def time(self) -> int: ...
        @property
        def id(self) -> int: ...
        @property
        def from_state(self) -> rollout.State: ...
        @property
        def to_state(self) -> rollout.State: ...
        @property
        def reason(self) -> rollout.Reason: ...

    class View:
        """A trajectory as it stands."""

        @property
        def id(self) -> int: ...
        @property
        def state(self) -> rollout.State: ...
        @property
        def reason(self) -> rollout.Reason: ...
        @property
        def context_tokens(self) -> int: ...
        @property
        def sampled_tokens(self) -> int: ...
        @property
        def num_tool_calls(self) -> int: ...
        @property
        def num_segments(self) -> int: ...
        @property
        def num_retries(self) -> int: ...
        @property
        def oldest_version(self) -> int: ...
        @property
        def newest_version(self) -> int: ...
        @property
        def ticket(self) -> int: ...

    class Stats:
        """Counts; num_in_state by rollout.State."""

        @property
        def num_in_state(self) -> list[int]: ...
        @property
        def num_groups_in_flight(self) -> int: ...
        @property
        def num_groups_ready(self) -> int: ...
        @property
        def num_bound_tokens(self) -> int: ...
        @property
        def num_overdue_groups(self) -> int: ...
        @property
        def num_transitions(self) -> int: ...
        @property
        def num_late_reports(self) -> int: ...
        @property
        def num_retries(self) -> int: ...
        @property
        def num_submitted(self) -> int: ...
        @property
        def num_done(self) -> int: ...
        @property
        def num_truncated(self) -> int: ...
        @property
        def num_failed(self) -> int: ...
        @property
        def num_cancelled(self) -> int: ...
        @property
        def num_groups_released(self) -> int: ...
        @property
        def max_lag_seen(self) -> int: ...

    class Scheduler:
        """States, budgets, admission, rounds and versions of trajectories; may be called from any thread."""

        def __init__(self, settings: rollout.Settings) -> None: ...
        def begin_round(self, wanted: int, now: int) -> None: ...
        def take_groups(self) -> list[rollout.Released]: ...
        def interrupt(self, now: int) -> list[int]: ...
        def set_version(self, version: int, now: int) -> None: ...
        def end_step(self) -> bool: ...
        def close_intake(self) -> None: ...
        def submit(self, group: int, prompt_tokens: int, num_samples: int, now: int) -> None: ...
        def resume(
            self,
            id: int,
            *,
            context_tokens: int,
            sampled_tokens: int,
            num_tool_calls: int,
            num_segments: int,
            oldest_version: int,
            newest_version: int,
        ) -> None: ...
        def generated(
            self,
            ticket: int,
            context_tokens: int,
            sampled_tokens: int,
            num_new_tokens: int,
            oldest_version: int,
            newest_version: int,
            outcome: rollout.Outcome,
            now: int,
        ) -> rollout.Verdict: ...
        def answered(self, ticket: int, context_tokens: int, sampled_tokens: int, now: int) -> rollout.Verdict: ...
        def lost(
            self, ticket: int, context_tokens: int, sampled_tokens: int, owes_call: bool, now: int
        ) -> rollout.Verdict: ...
        def cancel(self, id: int, now: int) -> bool: ...
        def cancel_group(self, group: int, now: int) -> bool: ...
        def decide(self, now: int, limit: int = 0) -> rollout.Decisions: ...
        def next_deadline(self) -> int: ...
        def wakeup_fd(self) -> int: ...
        def set_kv_budget(self, tokens: int) -> None: ...
        @property
        def version(self) -> int: ...
        @property
        def stage(self) -> int: ...
        @stage.setter
        def stage(self, stage: int) -> None: ...
        def __contains__(self, id: int) -> bool: ...
        def look(self, id: int) -> rollout.View: ...
        def stats(self) -> rollout.Stats: ...
        def take_log(self) -> list[rollout.Transition]: ...
        def dump(self, now: int) -> str: ...
        def snapshot(self) -> bytes: ...
        def restore(self, bytes: bytes) -> None: ...
        def active_context_tokens(self) -> int: ...
        @property
        def num_unfinished_groups(self) -> int: ...

class balancer:
    """Where a request runs, and who has cached what. csrc/rollout/balancer.h says what each call means."""

    class Settings:
        """Numbers of a balancer; defaults are filled in."""

        policy: str
        base_tokens: int
        base_weight: float
        leave_factor: float
        leave_slack: float
        miss_weight: float
        radix_match: float
        radix_gap: int
        radix_ratio: float
        score_load: float
        kv_share: float
        block_tokens: int
        index_bytes: int
        max_sessions: int
        breaker_failures: int
        breaker_nanoseconds: int
        seed: int

    class Placement:
        """One decision."""

        @property
        def admission(self) -> str:
            """placed, busy, no_engine or too_long; engine and lease only when placed."""

        @property
        def engine(self) -> int: ...
        @property
        def lease(self) -> int: ...
        @property
        def hit_tokens(self) -> int:
            """Tokens expected to be cached there."""

        @property
        def version(self) -> int:
            """Of the engine's weights."""

        @property
        def is_new(self) -> bool:
            """The session had no engine, or lost it."""

        @property
        def has_moved(self) -> bool: ...
        @property
        def retry_nanoseconds(self) -> int:
            """no_engine: when one may be probed; 0 for never."""

    class EngineView:
        """An engine as it stands."""

        @property
        def state(self) -> str:
            """up, draining or down."""

        @property
        def breaker(self) -> str:
            """closed, open or half_open."""

        @property
        def capacity(self) -> float: ...
        @property
        def kv_tokens(self) -> int: ...
        @property
        def version(self) -> int: ...
        @property
        def weight_units(self) -> int:
            """W in units of 1 / WEIGHT_UNIT."""

        @property
        def context_tokens(self) -> int: ...
        @property
        def num_running(self) -> int: ...
        @property
        def num_paused(self) -> int: ...
        @property
        def num_blocks(self) -> int: ...
        @property
        def num_placed(self) -> int: ...

    class Stats:
        """Counts since the start; num_engines to num_lease_bytes as of now."""

        @property
        def num_engines(self) -> int: ...
        @property
        def num_sessions(self) -> int: ...
        @property
        def num_leases(self) -> int: ...
        @property
        def num_blocks(self) -> int: ...
        @property
        def num_index_bytes(self) -> int: ...
        @property
        def num_session_bytes(self) -> int: ...
        @property
        def num_lease_bytes(self) -> int: ...
        @property
        def num_placed(self) -> int: ...
        @property
        def num_stayed(self) -> int: ...
        @property
        def num_moved(self) -> int: ...
        @property
        def num_refused(self) -> int: ...
        @property
        def num_late(self) -> int: ...
        @property
        def num_lost(self) -> int: ...
        @property
        def num_hit_tokens(self) -> int: ...
        @property
        def num_tokens(self) -> int: ...

    class Balancer:
        """All methods may be called from any thread. Bad values raise ValueError."""

        WEIGHT_UNIT: int
        ANY_VERSION: int
        NO_SESSION: int

        def __init__(self, settings: balancer.Settings) -> None: ...
        def add_engine(self, capacity: float, kv_tokens: int, version: int) -> int: ...
        def engine_up(self, engine: int) -> None: ...
        def engine_down(self, engine: int) -> list[int]: ...
        def drain(self, engine: int) -> None: ...
        def set_version(self, engine: int, version: int) -> None: ...
        def clear_cache(self, engine: int) -> None: ...
        def drop_cached(self, engine: int, ids: npt.NDArray[np.int32], session: int, kept_tokens: int) -> None: ...
        def adopt(self, engine: int, ids: npt.NDArray[np.int32], session: int) -> None: ...
        def acquire(
            self, ids: npt.NDArray[np.int32], session: int, min_version: int, now: int
        ) -> balancer.Placement: ...
        def acquire_blocks(
            self, names: npt.NDArray[np.uint64], num_tokens: int, session: int, min_version: int, now: int
        ) -> balancer.Placement: ...
        def acquire_length(
            self, num_tokens: int, *, session: int, group: int, group_tokens: int, min_version: int, now: int
        ) -> balancer.Placement: ...
        def progress(self, lease: int, num_tokens: int) -> bool: ...
        def pause(self, lease: int, now: int) -> bool: ...
        def release(self, lease: int, ending: str, now: int) -> bool: ...
        def end_session(self, session: int) -> bool: ...
        def engine_of(self, lease: int) -> int: ...
        def num_known_tokens(self, session: int) -> int: ...
        def look(self, engine: int) -> balancer.EngineView: ...
        def stats(self) -> balancer.Stats: ...
        def dump(self) -> str: ...
        def verify(self) -> None: ...

class simulator:
    """Rollouts as discrete events over the production scheduler and balancer."""

    @staticmethod
    def plan(workload: dict[str, Any], seed: int, number: int) -> list[tuple[int, float]]:
        """Turns of one trajectory: tokens that are sampled, seconds of the tool behind them (0 behind the last)."""

    class Stop:
        """Ends simulations from another thread: they raise RuntimeError."""

        def __init__(self) -> None: ...
        def set(self) -> None: ...

    @staticmethod
    def simulate(settings: dict[str, Any], stop: simulator.Stop, *, with_timeline: bool) -> dict[str, Any]:
        """One whole simulation; orchestration/simulation.py makes settings and reads results. Raises KeyError for
        settings that are missing or that nobody reads, ValueError and RuntimeError for what cannot be simulated."""
