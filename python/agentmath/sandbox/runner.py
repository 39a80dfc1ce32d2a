"""What a child does once it is hardened: runs blocks of code, one after another, in one namespace.

Nothing here is trusted afterwards: the code that runs shares this memory. What is sent back is a report, and is called
so. The only change to the code is that a trailing expression is evaluated apart, so that its repr can be told.
"""

from __future__ import annotations
import __future__

import ast
import atexit
import builtins
import io
import linecache
import os
import select
import struct
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

FINISHED, EXCEPTION, MEMORY, EXIT = range(4)

_COMMAND = struct.Struct("<IBBQII")
"""csrc/sandbox/frame.h: sequence, is final, is seeded, seed, bytes of code, bytes of input."""
_REHEARSAL = "<rehearsal>"
_REHEARSED = b"def double(x): return 2 * x\nprint(f'{double(1)}', [x for x in range(3)], file=out)"
_MAX_VALUE_CHARACTERS = 8000
_MAX_ERROR_CHARACTERS = 2000
_MAX_TRACEBACK_FRAMES = 24
_MAX_TRACEBACK_CHARACTERS = 16_000

EncodeReport = Callable[[int, int, int, bytes | None, bytes], bytes]


class BlockEnd(NamedTuple):
    """How a block ended, in its own words."""

    outcome: int
    exit_code: int = 0
    value: str | None = None
    error: str = ""


def serve(channel: int, encode_report: EncodeReport) -> NoReturn:
    """Run the blocks that arrive on channel until a final one or the end of the stream."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    if not select.select([channel], [], [], 0)[0]:
        rehearse(encode_report)
    while True:
        header = _read_exactly(channel, _COMMAND.size)
        if header is None:
            os._exit(0)
        sequence, is_final, is_seeded, seed, num_code, num_stdin = _COMMAND.unpack(header)
        code = _read_exactly(channel, num_code)
        stdin = _read_exactly(channel, num_stdin)
        if code is None or stdin is None:
            os._exit(0)
        if stdin:
            sys.stdin = input_stream(stdin)
        if is_seeded:
            _seed(seed)
        _reopen_outputs()
        end = run_block(code, namespace=module.__dict__, name=f"<snippet {sequence}>")
        if is_final:
            end = _finish_interpreter(end)
        _flush()
        value = None if end.value is None else _utf8(end.value)
        _write_all(channel, encode_report(end.outcome, sequence, end.exit_code, value, _utf8(end.error)))
        if is_final:
            os._exit(end.exit_code)


def rehearse(encode_report: EncodeReport) -> None:
    """Run a block of our own and drop all that it made. A child copies a page of the zygote's memory when it first
    writes to it: those that every block writes to are copied while nobody waits for one."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    end = run_block(_REHEARSED, namespace={"__builtins__": builtins, "out": out}, name=_REHEARSAL)
    linecache.cache.pop(_REHEARSAL, None)
    _flush()
    encode_report(end.outcome, 0, end.exit_code, None, b"")


def _seed(seed: int) -> None:
    """Make this block's randomness a function of the seed, the system's own source included.

    Importing random takes longer than most blocks: where it is not loaded yet, it is seeded when it is.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _SeedsRandom)]
    if "random" in sys.modules:
        _seed_random(seed)
    else:
        sys.meta_path.insert(0, _SeedsRandom(seed))
        os.urandom = _urandom


class _SeedsRandom:
    """An import hook that seeds random as soon as it is loaded."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        if name != "random":
            return None
        sys.meta_path.remove(self)
        spec = next((found for f in sys.meta_path if (found := f.find_spec(name, path, target)) is not None), None)  # type: ignore[arg-type]
        loader: Any = spec and spec.loader
        if loader is not None:
            load = loader.exec_module

            def load_and_seed(module: types.ModuleType) -> None:
                load(module)
                _seed_random(self._seed)

            loader.exec_module = load_and_seed
        return spec


def _urandom(size: int, /) -> bytes:
    """Stands in for os.urandom until random is loaded and seeded, which replaces it."""
    import random

    return random.randbytes(size) if os.urandom is _urandom else os.urandom(size)


def _seed_random(seed: int) -> None:
    random: Any = sys.modules["random"]
    source = random.Random(seed)
    random.seed(source.getrandbits(64))
    os.urandom = source.randbytes
    random._urandom = source.randbytes  # secrets takes it from there
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(source.getrandbits(32))


def run_block(code: bytes, *, namespace: dict[str, Any], name: str) -> BlockEnd:
    """Execute one block. The named boundary at which whatever model code raises becomes a record."""
    try:
        source = code.decode("utf-8", "surrogatepass")
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        return BlockEnd(FINISHED, value=_execute(source, namespace, name))
    except SystemExit as request:
        return _exit_request(request)
    except BaseException as error:
        return _describe(error)


def _execute(source: str, namespace: dict[str, Any], name: str) -> str | None:
    tree = ast.parse(source, name)
    trailing = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        exec(compile(tree, name, "exec", dont_inherit=True), namespace)
    if not isinstance(trailing, ast.Expr):
        return None
    flags = _future_flags(tree)
    value = eval(compile(ast.Expression(trailing.value), name, "eval", flags, dont_inherit=True), namespace)
    if value is None:
        return None
    text = repr(value)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else text[:_MAX_VALUE_CHARACTERS] + "..."


def _future_flags(tree: ast.Module) -> int:
    """Compiler flags of the block's `from __future__` lines, which must hold for its trailing expression too."""
    names = [
        alias.name
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        for alias in statement.names
    ]
    flags = 0
    for name in names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


def _exit_request(request: SystemExit) -> BlockEnd:
    if request.code is None:
        return BlockEnd(EXIT, 0)
    if isinstance(request.code, int):
        fits = -sys.maxsize - 1 <= request.code <= sys.maxsize
        return BlockEnd(EXIT, request.code & 0xFF if fits else 0xFF)
    try:
        _print_error(f"{request.code}\n")
    except BaseException as error:  # its __str__ is model code
        return _describe(error)
    return BlockEnd(EXIT, 1)


def _describe(error: BaseException) -> BlockEnd:
    outcome = MEMORY if isinstance(error, MemoryError) else EXCEPTION
    line = type(error).__name__
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        told = traceback.TracebackException(type(error), error, trace, limit=-_MAX_TRACEBACK_FRAMES, compact=True)
        lines = "".join(told.format_exception_only()).splitlines()
        line = next((text for text in lines if text and not text[0].isspace()), line)
        _print_error(_shorten("".join(told.format())))
    except BaseException:  # the exception's own methods are model code too, and memory may be short
        line = line or "exception"
    return BlockEnd(outcome, 1, error=line[:_MAX_ERROR_CHARACTERS])


def _finish_interpreter(end: BlockEnd) -> BlockEnd:
    """What the interpreter does at exit, without tearing down a heap that is about to vanish."""
    try:
        # Importing it here would cost every fork of the zygote a third of a millisecond.
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException as error:
        return _describe(error) if end.outcome == FINISHED else end
    return end


def _shorten(text: str) -> str:
    """A message may quote a source line or a value of any length."""
    keep = _MAX_TRACEBACK_CHARACTERS // 2
    return text if len(text) <= 2 * keep else f"{text[:keep]}\n...\n{text[-keep:]}"


def _print_error(text: str) -> None:
    _flush()
    sys.stderr.write(text)


def _flush() -> None:
    names = ("stdout", "__stdout__", "stderr", "__stderr__")
    streams = {id(stream): stream for stream in (getattr(sys, name, None) for name in names)}.values()
    for stream in streams:
        try:
            stream.flush()  # type: ignore[union-attr]
        except BaseException:  # model code may have put anything there
            continue


def _reopen_outputs() -> None:
    """A block that closed an output keeps it from itself, not from the next one."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name, None)
        try:
            is_gone = stream is None or stream.closed
        except BaseException:  # model code may have put anything there
            continue
        if is_gone:
            setattr(sys, name, output_stream(fd))


def output_stream(fd: int) -> io.TextIOWrapper:
    """Line-buffered, so that what was printed before a kill is not lost; closing it leaves the descriptor open."""
    buffered = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
    return io.TextIOWrapper(buffered, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def input_stream(data: bytes) -> io.TextIOWrapper:
    """What a block reads as its standard input; descriptor 0 is /dev/null."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _read_exactly(fd: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        data = os.read(fd, min(count, 1 << 20))
        if not data:
            return None
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return  # model code closed the channel: then there is no report
