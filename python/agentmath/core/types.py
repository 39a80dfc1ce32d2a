"""The records that travel the corridor, from dataset row to gradient.

Rollout and training meet here and nowhere else. All records are keyword-only; those that never change are frozen.

A worked example, one task with one tool call (each letter is one token):

    prompt   Q Q Q                 kind PROMPT        log-prob NaN   version -1
    turn 0   t t C c c /C          THINK, CODE        sampled        version 7
             I o o /I              INTERPRETER        NaN            version -1     (inserted, never trained)
    turn 1   a a E                 ANSWER             sampled        version 7

The trajectory's tokens are the prompt's and then each turn's, 16 in all; 9 of them are trainable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

NO_VERSION = -1


class SpanKind(IntEnum):
    """What a token is; loss masks come from this and from nothing else."""

    PROMPT = 0
    THINK = 1
    CODE = 2
    INTERPRETER = 3
    ANSWER = 4
    PAD = 5


SAMPLED_KINDS = (SpanKind.THINK, SpanKind.CODE, SpanKind.ANSWER)
_IS_SAMPLED = np.isin(np.arange(256), SAMPLED_KINDS)


class StopReason(StrEnum):
    """Why a generation, a segment or a trajectory ended."""

    STOP = "stop"
    """A stop string of the protocol was produced: a tool call waits."""
    EOS = "eos"
    """The model ended its message."""
    ANSWER = "answer"
    """The protocol saw a final answer."""
    LENGTH = "length"
    """A token budget was used up."""
    MAX_TOOL_CALLS = "max_tool_calls"
    """One more tool call was asked for than the budget allows."""
    SEGMENT = "segment"
    """The bounds of this pass were reached; the trajectory goes on in a later step."""
    INVENTED_OUTPUT = "invented_output"
    """The model opened an output block of its own; it was cut there."""
    FORMAT_ERROR = "format_error"
    """A closing code tag without an opening one: what was meant is unknown."""
    INVALID_LIMIT = "invalid_limit"
    """Too many calls in a row that could not be run: empty, or malformed."""
    ERROR = "error"
    """The infrastructure failed; such a trajectory is dropped and counted, never scored."""
    ABORTED = "aborted"
    """Cancelled from outside."""


INFRASTRUCTURE_ENDS = frozenset({StopReason.ERROR, StopReason.ABORTED})
"""Ends that are not the model's doing: such a trajectory gets no reward and is not trained on."""


class ToolStatus(StrEnum):
    """What became of a tool call, from kernel facts."""

    OK = "ok"
    EXCEPTION = "exception"
    EXIT = "exit"
    SIGNAL = "signal"
    WALL_TIMEOUT = "wall_timeout"
    CPU_TIMEOUT = "cpu_timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    SYSCALL_VIOLATION = "syscall_violation"
    SESSION_LOST = "session_lost"
    PROTOCOL_ERROR = "protocol_error"
    QUEUE_TIMEOUT = "queue_timeout"
    CANCELLED = "cancelled"
    SANDBOX_ERROR = "sandbox_error"


INFRASTRUCTURE_STATUSES = frozenset({ToolStatus.SANDBOX_ERROR, ToolStatus.QUEUE_TIMEOUT, ToolStatus.CANCELLED})
"""Statuses that are our fault: the call may be repeated, and is never turned into a reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One dataset row."""

    id: str
    """Unique within its source, e.g. "svamp-chal-17"."""
    question: str
    """The problem as the model will read it, without any format instruction."""
    answer: str
    """The gold answer as text, e.g. "51"."""
    source: str = ""
    """Name of the data source that it came from."""
    difficulty: float | None = None
    """The source's own number, when it has one: a level from 1 to 5, a share of failures; scales differ by source."""
    intermediate: tuple[str, ...] = ()
    """Known intermediate results in order, for the code agent's reward."""
    solution: str | None = None
    """A worked solution in the source's own form, when the source has one."""
    subject: str = ""
    """Field of mathematics or kind of problem, as the source names it; empty when it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A worked trajectory for supervised training, as text.

    turns[i] for every i but the last ends with a closed code block; outputs[i] is what that block printed. Before the
    programs were run outputs is empty.
    """

    task: Task
    turns: tuple[str, ...]
    """What the model is to say, tags included."""
    outputs: tuple[str, ...] = ()
    """One tool output fewer than turns, or empty while the programs have not been run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Tokens:
    """Struct of arrays over T tokens; all four arrays have the same length."""

    ids: npt.NDArray[np.int32]
    """[T] vocabulary ids, as the engine sampled them or as they were inserted."""
    logprobs: npt.NDArray[np.float32]
    """[T] behaviour log-prob of each sampled token; NaN for tokens nobody sampled."""
    kinds: npt.NDArray[np.uint8]
    """[T] SpanKind of each token."""
    versions: npt.NDArray[np.int32]
    """[T] weight version that sampled each token; NO_VERSION for tokens nobody sampled."""

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.logprobs), len(self.kinds), len(self.versions)}
        assert len(lengths) == 1, f"token arrays differ in length: {sorted(lengths)}"

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Tokens({len(self)} tokens, {int(self.trainable.sum())} trainable)"

    @property
    def trainable(self) -> npt.NDArray[np.bool_]:
        """[T] True where the model sampled the token: the one effective mask."""
        return _IS_SAMPLED[self.kinds]

    @staticmethod
    def inserted(ids: Sequence[int] | npt.NDArray[np.int32], kind: SpanKind) -> Tokens:
        """Tokens that nobody sampled: a prompt or a tool's output."""
        n = len(ids)
        return Tokens(
            ids=np.asarray(ids, dtype=np.int32),
            logprobs=np.full(n, np.nan, dtype=np.float32),
            kinds=np.full(n, kind, dtype=np.uint8),
            versions=np.full(n, NO_VERSION, dtype=np.int32),
        )

    @staticmethod
    def concatenate(parts: Iterable[Tokens]) -> Tokens:
        """One stream out of several, in order."""
        parts = list(parts)
        if not parts:
            return Tokens.inserted([], SpanKind.PROMPT)
        return Tokens(
            ids=np.concatenate([p.ids for p in parts]),
            logprobs=np.concatenate([p.logprobs for p in parts]),
            kinds=np.concatenate([p.kinds for p in parts]),
            versions=np.concatenate([p.versions for p in parts]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one request is sampled; the same numbers define the trainer's log-probs."""

    max_new_tokens: int
    """Upper bound on sampled tokens of this request."""
    temperature: float = 1.0
    """0 means greedy; log-probs are then those of temperature 1."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this probability are sampled, at the temperature; log-probs are
    those of what is left. Such tokens are for evaluation: the trainer knows nothing of it."""
    stop: tuple[str, ...] = ()
    """Texts that end the generation as soon as they are complete; one may have begun in the context's last tokens."""
    seed: int = 0
    """Seed of this request's own random numbers; equal seeds and weights give equal tokens."""
    first_draw: int = 0
    """Random numbers of the seed that were used before: a request that is taken up again goes on behind them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completion:
    """What an engine returns for one request."""

    ids: npt.NDArray[np.int32]
    """[n] sampled ids, the stop or end token included."""
    logprobs: npt.NDArray[np.float32]
    """[n] log-probs of the distribution that was sampled from."""
    versions: npt.NDArray[np.int32]
    """[n] weight version at each token."""
    stop_reason: StopReason
    """STOP, EOS, LENGTH or ABORTED."""
    stop_text: str | None = None
    """Which stop text ended it, if one did."""

    @staticmethod
    def unsampled(ids: Sequence[int], stop_reason: StopReason) -> Completion:
        """Words that are given instead of sampled, for an agent to read."""
        n = len(ids)
        return Completion(
            ids=np.asarray(ids, dtype=np.int32),
            logprobs=np.full(n, np.nan, dtype=np.float32),
            versions=np.full(n, NO_VERSION, dtype=np.int32),
            stop_reason=stop_reason,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one execution."""

    cpu_seconds: float = 2.0
    """CPU time of the snippet: gives the verdict."""
    wall_seconds: float = 10.0
    """Wall time: the backstop for code that sleeps."""
    memory_bytes: int = 512 << 20
    """Address space above the interpreter's own."""
    output_bytes: int = 64 << 10
    """Bytes kept of each of stdout and stderr (head and tail); eight times as much ends the execution."""
    file_bytes: int = 16 << 20
    """Largest file the snippet may write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What an agent asked a tool to do."""

    tool: str
    """Name of the tool, e.g. "code"."""
    source: str
    """The program or query, exactly as the protocol cut it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of a tool call. Facts are the kernel's, unless marked reported."""

    status: ToolStatus
    stdout: str = ""
    """Head and tail of standard output, undecodable bytes replaced."""
    stderr: str = ""
    """Head and tail of standard error."""
    stdout_bytes: int = 0
    """Bytes written in all, kept or not."""
    stderr_bytes: int = 0
    value: str | None = None
    """repr of a trailing expression (reported)."""
    error: str | None = None
    """Last line of the traceback, or why the call was refused (reported)."""
    exit_code: int | None = None
    signal: int | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    queue_seconds: float = 0.0
    """Time spent waiting for a free worker, not part of wall_seconds."""
    peak_memory_bytes: int = 0
    layers: tuple[str, ...] = ()
    """Names of the isolation layers in force."""

    @property
    def is_infrastructure_failure(self) -> bool:
        """True when the fault is ours: never scored."""
        return self.status in INFRASTRUCTURE_STATUSES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """One agent speaking once, and the tool's answer if it called one."""

    role: str
    """reasoning, code, calculator, retrieval, ..."""
    agent: str
    """Name of the agent; its policy is the one trained on this turn."""
    tokens: Tokens
    """Sampled tokens, then the inserted tool output if any."""
    stop_reason: StopReason
    call: ToolCall | None = None
    result: ToolResult | None = None
    faults: tuple[str, ...] = ()
    """What is wrong with the form of its words, by name: "unclosed_code", "malformed_call", ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A slice of a trajectory that was produced in one pass."""

    first_turn: int
    """Index of the first turn of this pass."""
    num_turns: int
    step: int
    """Optimiser step at which the pass ran."""
    num_sampled_tokens: int
    num_tool_calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """Total and named parts; parts that do not apply are absent."""

    total: float
    parts: dict[str, float] = field(default_factory=dict[str, float])
    """At least "accuracy" (0 or 1)."""
    extracted: str | None = None
    """The final answer found in model text; None when there is none."""
    rule: str = ""
    """Which grading rule decided."""

    @property
    def accuracy(self) -> float:
        return self.parts["accuracy"]


@dataclass(slots=True, kw_only=True, eq=False)
class Trajectory:
    """One sample of one task: prompt, turns, and how it ended. Grows turn by turn."""

    task: Task
    sample_index: int
    """Index within the group, 0 <= sample_index < group size."""
    ordinal: int
    """Position of the task in the run's stream of tasks; (ordinal, sample_index) is unique in a run."""
    prompt: Tokens
    turns: list[Turn] = field(default_factory=list[Turn])
    segments: list[Segment] = field(default_factory=list[Segment])
    stop_reason: StopReason | None = None
    """None or SEGMENT while unfinished."""
    reward: Reward | None = None
    advantage: float | None = None
    """Set by algorithms.advantages for groups that are kept."""
    error: str | None = None
    """Why the infrastructure failed, when stop_reason is ERROR."""

    @property
    def is_finished(self) -> bool:
        return self.stop_reason is not None and self.stop_reason is not StopReason.SEGMENT

    @property
    def tokens(self) -> Tokens:
        """All tokens in order, prompt first."""
        return Tokens.concatenate([self.prompt, *(t.tokens for t in self.turns)])

    @property
    def num_context_tokens(self) -> int:
        """Context length: what budgets are about."""
        return len(self.prompt) + sum(len(t.tokens) for t in self.turns)

    @property
    def num_sampled_tokens(self) -> int:
        """Generated length: what length penalties are about."""
        return sum(int(t.tokens.trainable.sum()) for t in self.turns)

    @property
    def num_tool_calls(self) -> int:
        """Executed calls; a call that was refused or cut does not count."""
        return sum(t.result is not None for t in self.turns)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the form of the model's words, turn by turn; empty when all is well formed."""
        return tuple(fault for turn in self.turns for fault in turn.faults)

    @property
    def oldest_version(self) -> int | None:
        """Weight version of the oldest sampled token; None before anything was sampled."""
        versions = [int(v) for t in self.turns for v in t.tokens.versions[t.tokens.trainable]]
        return min(versions, default=None)


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """The samples of one task: what an advantage is relative to."""

    task: Task
    ordinal: int
    trajectories: list[Trajectory]

    @property
    def is_finished(self) -> bool:
        return all(t.is_finished for t in self.trajectories)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingSample:
    """One sequence as the trainer sees it; all arrays have length T."""

    policy: str
    """Name of the policy whose gradient this sample feeds."""
    ids: npt.NDArray[np.int32]
    trainable: npt.NDArray[np.bool_]
    """True where the token at that position is a target of the loss."""
    behaviour_logprobs: npt.NDArray[np.float32]
    """NaN where nobody sampled the token; such positions are never trainable in RL."""
    versions: npt.NDArray[np.int32]
    advantage: float
    """Shared by all trainable tokens of the sample; 1.0 in supervised training."""
    key: str = ""
    """Who it is, for logs: "ordinal/sample_index" in RL, the row id in SFT."""
    prefix_key: str = ""
    """Samples with the same non-empty key begin with the same prefix_tokens tokens, the prompt of a group. A
    micro-batch computes such a prefix once."""
    prefix_tokens: int = 0
    """Length of that common beginning; none of it is trainable."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Microbatch:
    """Whole samples laid end to end without padding; a beginning that several have in common lies there once."""

    samples: tuple[TrainingSample, ...]
    num_tokens: int
    """Tokens to forward."""
    num_trainable_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What one optimiser step reports; a metric that does not apply is absent from values, never 0."""

    values: dict[str, float]
    skipped: str | None = None
    """Why no update was made, when none was."""


JSON = dict[str, Any]
