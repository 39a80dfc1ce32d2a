"""What an attack is, how it is carried out, and how its results are judged.

An attack is code for a fresh process, or blocks for one session, with the statuses it may end in. `guards` names the
isolation layers that make it fail: while all of them are in force the outcome is judged strictly; where one is missing
the attack may succeed, but the report must still be true: a status among the allowed, facts that fit it, and the next
snippet right.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from canaries import Canaries

from agentmath.core.types import INFRASTRUCTURE_STATUSES, Limits, ToolResult, ToolStatus
from agentmath.sandbox.local import LocalSandbox

S = ToolStatus
MIB = 1 << 20
SHORT_CPU_SECONDS = 0.15
SHORT_WALL_SECONDS = 0.4
"""Of attacks that are to run into this limit; generous enough to get there on a loaded machine."""
AMPLE_SECONDS = 30.0
"""Of the limit that an attack is not to run into."""
SLACK_SECONDS = 10.0
"""By which a time may exceed its limit before the limit counts as not kept; loaded machines are slow."""

CTYPES = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One way to misbehave."""

    number: int
    """Line of the open list of hostile snippets; 0 for kinds that the list does not name."""
    name: str
    code: str | tuple[str, ...]
    """A tuple holds the blocks of one session; the judgement is on the last. @NAME@ stands for a canary's text."""
    ends: frozenset[ToolStatus]
    """While all guards are in force."""
    guards: frozenset[str] = frozenset()
    otherwise: frozenset[ToolStatus] = frozenset({S.OK, S.EXCEPTION})
    """Statuses allowed besides `ends` when a guard is missing."""
    value: str | None = None
    """Regular expression for the whole value."""
    says: str = ""
    """Regular expression to be found in error, stdout or stderr."""
    stdout: str | None = None
    stdin: bytes = b""
    after: tuple[str, str] = ("print(6 * 7)", "42\n")
    """A snippet in a fresh process afterwards, and what it must print."""
    limits: Mapping[str, float] = field(default_factory=dict)
    hoards: bool = False
    """Takes all memory it can get: not to be run where nothing limits that."""
    shoots: bool = False
    """Would harm processes of the same user if nothing stopped it."""
    alone: bool = False
    """Starves or is starved by neighbours, so it runs with none."""

    @property
    def id(self) -> str:
        return f"{self.number:02} {self.name}" if self.number else self.name

    def is_guarded(self, in_force: frozenset[str]) -> bool:
        return self.guards <= in_force

    def bounds(self, *, is_in_a_hurry: bool = False) -> Limits:
        """Limits of each block. In a hurry it takes less time to run into the CPU limit."""
        is_spinning = S.CPU_TIMEOUT in self.ends
        is_waiting = S.WALL_TIMEOUT in self.ends
        defaults: dict[str, float] = {
            "cpu_seconds": SHORT_CPU_SECONDS if is_spinning else AMPLE_SECONDS,
            "wall_seconds": SHORT_WALL_SECONDS if is_waiting and not is_spinning else 2 * AMPLE_SECONDS,
            "memory_bytes": 128 * MIB,
            "output_bytes": 8000,
            "file_bytes": 4 * MIB,
        }
        chosen = defaults | dict(self.limits)
        if is_spinning and is_in_a_hurry:
            chosen["cpu_seconds"] *= 0.4
        return Limits(**chosen)  # type: ignore[arg-type]


def attack(number: int, name: str, ends: ToolStatus | set[ToolStatus], code: str | tuple[str, ...], **more: object):
    """An Attack. guards may be words in one string; see Attack for the rest."""
    guards = more.pop("guards", "")
    assert isinstance(guards, str)
    statuses = frozenset({ends}) if isinstance(ends, ToolStatus) else frozenset(ends)
    if isinstance(more.get("otherwise"), set):
        more["otherwise"] = frozenset(more["otherwise"])  # type: ignore[arg-type]
    return Attack(number=number, name=name, code=code, ends=statuses, guards=frozenset(guards.split()), **more)  # type: ignore[arg-type]


def refused(number: int, name: str, code: str, guards: str, **more: object) -> Attack:
    """Code that must end in an exception while its guards are in force."""
    return attack(number, name, S.EXCEPTION, code, guards=guards, **more)


def refused_call(number: int, name: str, call: str, *, errno: str = "1", setup: str = "", **more: object) -> Attack:
    """A C call that the filter must answer with an error (default EPERM). errno: regular expression."""
    code = f"{CTYPES}{setup}({call}, ctypes.get_errno())"
    return attack(number, name, S.OK, code, guards="seccomp", value=rf"\(-1, ({errno})\)", **more)


async def carry_out(attack: Attack, sandbox: LocalSandbox, canaries: Canaries, limits: Limits) -> list[ToolResult]:
    """Results of all blocks."""
    blocks = (attack.code,) if isinstance(attack.code, str) else attack.code
    session = None if isinstance(attack.code, str) else await sandbox.open_session()
    results: list[ToolResult] = []
    for block in blocks:
        code = canaries.fill_in(block)
        results.append(await sandbox.execute(code, limits=limits, session=session, stdin=attack.stdin))
    if session is not None:
        await sandbox.close_session(session)
    return results


async def try_attack(
    attack: Attack, sandbox: LocalSandbox, canaries: Canaries, *, is_in_a_hurry: bool = False
) -> list[str]:
    """Carry out the attack, then run an ordinary snippet; everything that was not as it should be, in words."""
    in_force = frozenset(layer.name for layer in sandbox.report() if layer.in_force)
    limits = attack.bounds(is_in_a_hurry=is_in_a_hurry)
    results = await carry_out(attack, sandbox, canaries, limits)
    found = [lie for result in results for lie in lies(result, limits, in_force)]
    found += wrongs(attack, results[-1], in_force)
    if attack.is_guarded(in_force) and any(canaries.secret in text for r in results for text in texts(r)):
        found.append("a secret of the trainer was told")
    code, expected = attack.after
    after = await sandbox.execute(code)
    if (after.status, after.stdout) != (S.OK, expected):
        found.append(f"the next snippet was wrong: {shown(after)}")
    return found


def wrongs(attack: Attack, result: ToolResult, in_force: frozenset[str]) -> list[str]:
    """How the result of the last block differs from what the attack expects."""
    is_guarded = attack.is_guarded(in_force)
    allowed = attack.ends if is_guarded else attack.ends | attack.otherwise
    if result.status not in allowed:
        return [f"status {result.status.value}, not {sorted(s.value for s in allowed)}: {shown(result)}"]
    if not is_guarded:
        return []
    found: list[str] = []
    if attack.value is not None and not re.fullmatch(attack.value, str(result.value), re.DOTALL):
        found.append(f"value {result.value!r} is not {attack.value!r}: {shown(result)}")
    if attack.stdout is not None and result.stdout != attack.stdout:
        found.append(f"stdout {result.stdout[:300]!r} is not {attack.stdout!r}")
    if attack.says and not any(re.search(attack.says, text) for text in texts(result)):
        found.append(f"nothing says {attack.says!r}: {shown(result)}")
    return found


def lies(result: ToolResult, limits: Limits, in_force: frozenset[str]) -> list[str]:
    """What contradicts itself in a result, whatever the snippet was."""
    found: list[str] = []
    status = result.status
    if status in INFRASTRUCTURE_STATUSES:
        found.append("a snippet was turned into a fault of the sandbox")
    if status is S.SIGNAL and not result.signal:
        found.append("status signal without a signal")
    if status in (S.OK, S.EXCEPTION, S.EXIT) and result.signal is not None:
        found.append("a signal beside a status that says it left by itself")
    if status is S.EXIT and result.exit_code is None:
        found.append("status exit without a code")
    if status not in (S.OK, S.EXCEPTION) and result.exit_code is None and not result.error:
        found.append("an end that nothing explains")
    if status is not S.SESSION_LOST and frozenset(result.layers) != in_force:
        found.append(f"layers {result.layers} are not those of the report")
    if not 0 <= result.cpu_seconds <= limits.cpu_seconds * 4 + SLACK_SECONDS:
        found.append("the CPU limit was not kept")
    if not 0 <= result.wall_seconds <= limits.wall_seconds + SLACK_SECONDS:
        found.append("the wall limit was not kept")
    if max(len(result.stdout), len(result.stderr)) > limits.output_bytes + 1000:
        found.append("more output than may be kept")
    if len(result.value or "") > 64_000 or len(result.error or "") > 64_000:
        found.append("a report of any length was taken")
    facts = json.loads(json.dumps(dataclasses.asdict(result)))
    if facts["stdout"] != result.stdout:
        found.append("JSON cannot carry the output")
    return [f"{text}: {shown(result)}" for text in found]


def texts(result: ToolResult) -> tuple[str, ...]:
    return result.error or "", result.stdout, result.stderr, result.value or ""


def shown(result: ToolResult) -> str:
    """The result without what makes it long."""
    facts = {k: v for k, v in dataclasses.asdict(result).items() if k != "layers" and v not in ("", None)}
    return str({k: v if not isinstance(v, str) else v[-300:] for k, v in facts.items()})


def may_run(attack: Attack, in_force: frozenset[str], *, is_walled_off: bool) -> bool:
    """False for what would harm this machine if it succeeded."""
    if attack.hoards and "rlimits" not in in_force:
        return False
    return not attack.shoots or "seccomp" in in_force or is_walled_off


def machine() -> str:
    return os.uname().machine
