"""agentmath sandbox run: programs from files, their output, and how they ended."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import math
import sys
import tokenize
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from pydantic import ValidationError

from agentmath.cli.errors import warn
from agentmath.config.sandbox import SandboxSection
from agentmath.config.schema import allowed
from agentmath.core.errors import ConfigError
from agentmath.core.types import ToolResult, ToolStatus
from agentmath.sandbox.local import open_sandbox
from agentmath.telemetry.quiet_stream import QuietStream

STANDARD_INPUT = "-"


class Program(NamedTuple):
    """One file of the command line."""

    name: str
    code: str


def make_section(**given: Any) -> SandboxSection:
    """The [sandbox] section with what was given, None meaning not given. Raises ConfigError; may warn on stderr."""
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{_option(key)} {value}: must be a finite number, greater than 0")
    try:
        section = SandboxSection(num_workers=1, **{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        rule = allowed(SandboxSection.model_fields[key])
        raise ConfigError(f"{_option(key)} {given[key]}: must be {rule}") from error
    bad = [name for name in section.preload if not all(part.isidentifier() for part in name.split("."))]
    if bad:
        raise ConfigError(f"--preload {bad[0]!r} is not the name of a module")
    if section.wall_seconds < section.cpu_seconds:
        limit = f"--cpu-seconds {section.cpu_seconds:g} has no effect"
        warn([f"{limit}: --wall-seconds {section.wall_seconds:g} ends the program first"])
    return section


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def read_programs(names: Sequence[str]) -> list[Program]:
    """The programs in files, - being standard input. Raises ConfigError for one that is not there or is not text."""
    if names.count(STANDARD_INPUT) > 1:
        raise ConfigError("- is given more than once, but standard input can be read only once")
    return [Program(shown(name), _decode(_read(name), name)) for name in names]


def run(programs: Sequence[Program], section: SandboxSection, *, in_session: bool, as_json: bool) -> bool:
    """Run programs one after another and print each result as it comes; True when all ended with status ok.

    Raises SandboxError when nothing can be run.
    """
    return asyncio.run(_run(programs, section, in_session=in_session, as_json=as_json))


async def _run(programs: Sequence[Program], section: SandboxSection, *, in_session: bool, as_json: bool) -> bool:
    out, notes = QuietStream(sys.stdout), QuietStream(sys.stderr)
    all_ok = True
    async with aclosing(_results(programs, section, in_session=in_session)) as results:
        async for program, result in results:
            all_ok = all_ok and result.status is ToolStatus.OK
            if as_json:
                out.write_line(json.dumps({"file": program.name} | dataclasses.asdict(result)))
            else:
                _print_result(program, result, out, notes)
    return all_ok


async def _results(
    programs: Sequence[Program], section: SandboxSection, *, in_session: bool
) -> AsyncGenerator[tuple[Program, ToolResult], None]:
    sandbox = await open_sandbox(section)
    try:
        session = await sandbox.open_session() if in_session else None
        for program in programs:
            yield program, await sandbox.execute(program.code, session=session)
    finally:
        await sandbox.close()


def _print_result(program: Program, result: ToolResult, out: QuietStream, notes: QuietStream) -> None:
    """What the program wrote goes where it was written to, a trailing expression's value to stdout, the rest to stderr.

    On a terminal control characters are shown, not obeyed: the program is not trusted with the screen.
    """
    for text, stream in ((result.stdout, out), (result.stderr, notes)):
        on_screen = stream.isatty()
        is_open = bool(text) and not text.endswith("\n")
        is_followed = on_screen or stream is notes or result.value is not None
        stream.write((shown(text, keep="\n\t") if on_screen else text) + ("\n" if is_open and is_followed else ""))
        stream.flush()
    if result.value is not None:
        out.write_line(shown(result.value, keep="\n\t"))
    ended = f"{program.name}: {result.status}" + _details(result)
    times = f"{result.wall_seconds:.3f} s, CPU {result.cpu_seconds:.3f} s, queue {result.queue_seconds:.3f} s"
    notes.write_line(f"{ended}; {times}, peak memory {result.peak_memory_bytes / 2**20:.1f} MiB")


def _details(result: ToolResult) -> str:
    if result.error:
        return f" ({shown(result.error)})"
    if result.signal is not None:
        return f" (signal {result.signal})"
    return f" (exit code {result.exit_code})" if result.exit_code else ""


def shown(text: str, *, keep: str = "") -> str:
    """Text with lone surrogates and characters that control a terminal, except those in keep, as escapes."""
    safe = text.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in safe)


def _read(name: str) -> bytes:
    try:
        if name == STANDARD_INPUT:
            stream: TextIO | None = sys.stdin
            return stream.buffer.read() if stream is not None else b""
        return Path(name).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {shown(name)}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{_place(name)} cannot be read: {reason}") from error


def _decode(content: bytes, name: str) -> str:
    """Text in the encoding that the interpreter would take: UTF-8, or what the first lines declare."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{_place(name)} is not {error.encoding} text (byte {error.start})") from error
    except SyntaxError as error:
        advice = "save it as UTF-8, or declare its encoding in its first line"
        raise ConfigError(f"{_place(name)} cannot be decoded ({error.msg}): {advice}") from error


def _place(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else shown(name)
