"""Compiled core of agentmath. Each room is a submodule; here a class, since one stub file cannot hold modules."""

import enum
from collections.abc import Sequence, Set
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
    """Scheduling of trajectories; csrc/rollout/scheduler.h says what each call means. Misuse raises RuntimeError."""

    class Mode(enum.Enum):
        BATCH = ...
        SEGMENTS = ...
        QUOTA = ...
        ASYNC = ...

    class State(enum.Enum):
        QUEUED = ...
        RUNNING = ...
        TOOL = ...
        PARKED = ...
        DONE = ...
        FAILED = ...
        CANCELLED = ...

    class Budgets:
        """Of one trajectory."""

        sampled_tokens: int
        context_tokens: int
        tool_calls: int
        segments: int
        segment_tokens: int
        segment_calls: int

    class Settings:
        mode: rollout.Mode
        groups_per_step: int
        groups_in_flight: int
        max_lag: int
        max_rounds: int
        kv_tokens: int

    class History:
        """What a trajectory has used up."""

        context_tokens: int
        sampled_tokens: int
        tool_calls: int
        segments: int
        oldest_version: int

    class Scheduler:
        def __init__(self, settings: rollout.Settings, budgets: rollout.Budgets) -> None: ...
        def set_budgets(self, budgets: rollout.Budgets) -> None: ...
        def submit(self, group: int, samples: Sequence[rollout.History]) -> None: ...
        def release(self) -> list[int]: ...
        def cancel(self, group: int) -> bool: ...
        def begin_step(self, version: int) -> None: ...
        def credit(self, kept: int) -> None: ...
        def begin_round(self) -> None: ...
        def num_wanted(self) -> int: ...
        def admit(self) -> list[int]: ...
        def is_round_over(self) -> bool: ...
        def is_step_over(self) -> bool: ...
        def interrupt(self) -> list[int]: ...
        def is_fresh(self, oldest_version: int) -> bool: ...
        def ask(self, key: int, context_tokens: int) -> tuple[int, bool]:
            """(tokens that may be sampled, whether it is the bound of this pass that ends there)."""

        def may_call(self, key: int) -> bool: ...
        def sampled(self, key: int, tokens: int, oldest_version: int) -> None: ...
        def inserted(self, key: int, tokens: int) -> None: ...
        def call_began(self, key: int) -> None: ...
        def call_ended(self, key: int) -> None: ...
        def park(self, key: int) -> None: ...
        def end(self, key: int, outcome: rollout.State) -> None: ...
        def state_of(self, key: int) -> rollout.State: ...
        def history_of(self, key: int) -> rollout.History: ...
        def unfinished(self) -> list[int]: ...
        def transitions(self) -> list[tuple[int, int, rollout.State, rollout.State]]:
            """(sequence number, key, from, to), the last few thousand."""

        def dump(self) -> str: ...
        @property
        def num_active(self) -> int: ...
        @property
        def active_context_tokens(self) -> int: ...
        @property
        def num_unfinished_groups(self) -> int: ...
