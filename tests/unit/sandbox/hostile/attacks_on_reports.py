"""Forged, broken and missing reports on the child's own channel, and what a session's block leaves for the next.

A frame is a length and a body of outcome, flag, sequence, exit code, value and error, as csrc/sandbox/frame.cpp has it.
Whatever the child says of itself, kernel facts stand: a process that sleeps, spins, aborts or leaves is reported so.
"""

from __future__ import annotations

from attack import CTYPES, Attack, S, attack

FRAME = (
    "import os, struct, time\n"
    "def frame(outcome=0, sequence=1, code=0, value=b'forged', error=b'', flag=1):\n"
    "    body = struct.pack('<BBIiI', outcome, flag, sequence, code, len(value)) + value\n"
    "    body += struct.pack('<I', len(error)) + error\n"
    "    return struct.pack('<I', len(body)) + body\n"
)
WRONG = S.PROTOCOL_ERROR
Statuses = S | set[S]


def forged(name: str, ends: Statuses, code: str) -> Attack:
    return attack(0, f"report: {name}", ends, FRAME + code)


FORGED = [
    forged("junk", WRONG, "os.write(3, b'junk' * 100)\ntime.sleep(9)"),
    forged("junk, then an ordinary end", WRONG, "os.write(3, b'junk' * 100)"),
    forged("one too many", {WRONG, S.OK}, "os.write(3, frame())\n'real'"),
    forged("two at once", {WRONG}, "os.write(3, frame() * 2)\ntime.sleep(9)"),
    forged("ten thousand", {WRONG, S.WALL_TIMEOUT}, "while True: os.write(3, frame())"),
    forged("ok, then sleep", {S.WALL_TIMEOUT}, "os.write(3, frame())\ntime.sleep(60)"),
    forged("ok, then spin", {S.CPU_TIMEOUT}, "os.write(3, frame())\nwhile True: pass"),
    forged("ok, then abort", {S.SIGNAL}, "os.write(3, frame())\nos.abort()"),
    forged("ok, then leave with 3", {S.EXIT}, "os.write(3, frame())\nos._exit(3)"),
    forged("ok, then leave with 0", {S.OK}, "os.write(3, frame())\nos._exit(0)"),
    forged("ok, then a flood", {S.OUTPUT_LIMIT}, "os.write(3, frame())\nwhile True: print('x' * 9999)"),
    forged("an exception, then leave with 0", {S.OK, S.EXIT, S.EXCEPTION}, "os.write(3, frame(1))\nos._exit(0)"),
    forged("an exit with 0, then leave with 9", {S.EXIT}, "os.write(3, frame(3, code=0))\nos._exit(9)"),
    forged("short of memory, then leave with 1", {S.MEMORY, S.EXIT}, "os.write(3, frame(2, code=1))\nos._exit(1)"),
    forged("an outcome that does not exist", WRONG, "os.write(3, frame(4))\ntime.sleep(9)"),
    forged("the last outcome there could be", WRONG, "os.write(3, frame(255))\ntime.sleep(9)"),
    forged("a flag that does not exist", WRONG, "os.write(3, frame(flag=2))\ntime.sleep(9)"),
    forged("an earlier block", WRONG, "os.write(3, frame(sequence=0))\ntime.sleep(9)"),
    forged("a later block", WRONG, "os.write(3, frame(sequence=2))\ntime.sleep(9)"),
    forged("the last block there could be", WRONG, "os.write(3, frame(sequence=2**32 - 1))\ntime.sleep(9)"),
    forged("no length", WRONG, "os.write(3, bytes(4))\ntime.sleep(9)"),
    forged("a length of 17", WRONG, "os.write(3, struct.pack('<I', 17) + bytes(17))\ntime.sleep(9)"),
    forged("a length of 4 GiB", WRONG, "os.write(3, b'\\xff' * 4)\ntime.sleep(9)"),
    forged("a length of 2 GiB", WRONG, "os.write(3, struct.pack('<I', 1 << 31))\ntime.sleep(9)"),
    forged("fields beyond the frame", WRONG, "f = bytearray(frame())\nf[14] = 200\nos.write(3, f)\ntime.sleep(9)"),
    forged("fields short of the frame", WRONG, "f = bytearray(frame())\nf[14] = 1\nos.write(3, f)\ntime.sleep(9)"),
    forged("larger than the cap", WRONG, "os.write(3, frame(value=b'x' * 10**6))\ntime.sleep(9)"),
    forged("text that is no text", {S.OK}, "os.write(3, frame(value=b'\\xff\\0\\xed\\xa0\\x80'))\nos._exit(0)"),
    forged("an error beside success", {S.OK}, "os.write(3, frame(error=b'lie'))\nos._exit(0)"),
    forged(
        "byte by byte", {S.OK}, "for c in frame():\n    os.write(3, bytes([c]))\n    time.sleep(0.001)\nos._exit(0)"
    ),
    forged("byte by byte, then sleep", {S.WALL_TIMEOUT}, "for c in frame(): os.write(3, bytes([c]))\ntime.sleep(60)"),
    forged("half of one, then sleep", S.WALL_TIMEOUT, "os.write(3, frame()[:9])\ntime.sleep(60)"),
    forged("half of one, then leave", S.EXIT, "os.write(3, frame()[:9])\nos._exit(0)"),
    forged("half of one, then an ordinary end", {WRONG, S.EXIT, S.OK}, "os.write(3, frame()[:9])"),
    forged("none, by a closed channel", S.EXIT, "os.close(3)\nos._exit(0)"),
    forged("none, by a closed channel and an ordinary end", {S.OK, S.EXIT}, "os.close(3)"),
    forged("none, by a channel shut down", {S.WALL_TIMEOUT}, f"{CTYPES}libc.shutdown(3, 2)\ntime.sleep(60)"),
    forged("none, by a channel shut down, then an end", {S.OK, S.EXIT}, f"{CTYPES}libc.shutdown(3, 2)"),
    forged(
        "to every descriptor",
        {WRONG, S.WALL_TIMEOUT},
        "for fd in range(3, 64):\n    try: os.write(fd, b'junk' * 99)\n    except OSError: pass\ntime.sleep(60)",
    ),
    forged("a byte out of band", {WRONG, S.WALL_TIMEOUT}, f"{CTYPES}libc.send(3, b'x', 1, 1)\ntime.sleep(60)"),
    forged("waiting for a command", S.WALL_TIMEOUT, "os.read(3, 99)\ntime.sleep(60)"),
    forged("a channel that does not block", {S.OK}, "os.set_blocking(3, False)\n'real'"),
    forged(
        "a channel full of bytes that mean nothing yet",
        {WRONG, S.WALL_TIMEOUT},
        "os.write(3, struct.pack('<I', 30_000))\nos.set_blocking(3, False)\nwhile True:\n"
        "    try: os.write(3, bytes(1000))\n    except OSError: time.sleep(0.01)",
    ),
]

LOST = {S.SESSION_LOST, S.PROTOCOL_ERROR}
WHATEVER = {S.OK, S.EXCEPTION, S.EXIT, S.SESSION_LOST, S.PROTOCOL_ERROR, S.SIGNAL, S.MEMORY}


def lasting(name: str, ends: Statuses, *blocks: str, **more: object) -> Attack:
    return attack(0, f"session: {name}", ends, blocks, **more)


SESSIONS = [
    lasting("an end of block forged", LOST, FRAME + "os.write(3, frame())\ntime.sleep(0.3)\n'real'", "1"),
    lasting(
        "the next end forged in advance",
        LOST,
        FRAME + "os.write(3, frame(sequence=1) + frame(sequence=2))\n1",
        "1",
        "2",
    ),
    lasting(
        "ends forged between blocks",
        LOST | {S.OK},
        FRAME + "import threading\ndef f():\n    time.sleep(0.05)\n    os.write(3, frame(sequence=2))\n"
        "threading.Thread(target=f, daemon=True).start()",
        "import time\ntime.sleep(0.3)",
        "1",
    ),
    lasting(
        "a forged end, then a spin",
        LOST | {S.CPU_TIMEOUT},
        FRAME + "os.write(3, frame())\nwhile True: pass",
        "x = 1\nwhile True: pass",
        limits={"wall_seconds": 3.0},
    ),
    lasting(
        "the channel closed",
        LOST | {S.WALL_TIMEOUT, S.EXIT},
        "import os\nos.close(3)",
        "1",
        limits={"wall_seconds": 1.0},
    ),
    lasting(
        "the channel closed and reopened",
        LOST | {S.WALL_TIMEOUT, S.EXIT},
        "import os\nos.dup2(0, 3)",
        "1",
        limits={"wall_seconds": 1.0},
    ),
    lasting(
        "os.write replaced by a forger",
        WHATEVER,
        "import os\nw = os.write\nos.write = lambda fd, d: w(fd, d[:4] + b'\\0\\1' + d[6:])",
        "1 / 0",
    ),
    lasting(
        "os.read replaced",
        WHATEVER | {S.WALL_TIMEOUT},
        "import os\nr = os.read\nos.read = lambda fd, n: r(fd, n)[::-1]",
        "1",
        limits={"wall_seconds": 1.0},
    ),
    lasting("the parser replaced", WHATEVER, "import ast\nast.parse = None", "1"),
    lasting(
        "the traceback module replaced",
        WHATEVER,
        "import traceback, linecache\ntraceback.TracebackException = None\nlinecache.cache = None",
        "1 / 0",
    ),
    lasting(
        "names of the language replaced",
        WHATEVER,
        "import builtins\n"
        "for n in ('len', 'repr', 'type', 'isinstance', 'compile', 'exec', 'eval', 'BaseException'): "
        "setattr(builtins, n, None)",
        "1 / 0",
    ),
    lasting(
        "its module replaced",
        WHATEVER,
        "import sys, types\nsys.modules['__main__'] = types.ModuleType('other')\nx = 1",
        "x",
    ),
    lasting("all modules forgotten", WHATEVER, "import sys\nsys.modules.clear()", "import json\njson.dumps(1)"),
    lasting("its own globals cleared", WHATEVER, "globals().clear()", "print(1)"),
    lasting(
        "an error handler replaced",
        WHATEVER,
        "import codecs\ndef f(e): raise SystemError\n"
        "for n in ('backslashreplace', 'replace', 'surrogatepass', 'strict'): codecs.register_error(n, f)",
        "print('\\ud800')\n'\\ud800'",
    ),
    lasting(
        "a tracer that spins",
        {S.CPU_TIMEOUT, S.SESSION_LOST},
        "import sys, threading\ndef t(*a):\n    while True: pass\nf = 1\nsys.settrace(t)",
        "def g(): pass\ng()",
    ),
    lasting(
        "a profiler that raises",
        WHATEVER,
        "import sys\ndef p(*a): raise ValueError('profiler')\nsys.setprofile(p)",
        "1",
    ),
    lasting(
        "an audit hook that raises",
        WHATEVER,
        "import sys\ndef h(name, a):\n    if name in ('compile', 'exec'): raise ValueError('hook')\n"
        "sys.addaudithook(h)",
        "1",
    ),
    lasting(
        "an audit hook that leaves",
        WHATEVER,
        "import sys, os\ndef h(name, a):\n    if name == 'compile': os._exit(0)\nsys.addaudithook(h)",
        "1",
    ),
    lasting(
        "a collector's callback that raises",
        {S.OK, S.EXCEPTION},
        "import gc\ngc.callbacks.append(lambda *a: 1 / 0)\ngc.set_threshold(1)",
        "[[] for _ in range(99)]\n5",
    ),
    lasting(
        "a finaliser that prints",
        S.OK,
        "class A:\n    def __del__(self): print('late')\na = A()",
        "a = 1\n2",
        stdout="late\n",
    ),
    lasting(
        "a weak finaliser that leaves",
        {S.EXIT, S.SESSION_LOST},
        "import weakref, os\nclass A: pass\na = A()\nweakref.finalize(a, os._exit, 0)",
        "del a",
    ),
    lasting("an exit hook", S.OK, "import atexit, time\natexit.register(time.sleep, 60)", "2", value="2"),
    lasting(
        "an alarm between blocks",
        {S.SESSION_LOST, S.SIGNAL},
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.05)",
        "import time\ntime.sleep(0.4)",
        "1",
    ),
    lasting(
        "an alarm handler between blocks",
        WHATEVER,
        "import signal\ndef f(*a): raise ValueError('alarm')\nsignal.signal(signal.SIGALRM, f)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.003)",
        "x = 0\nfor i in range(10**5): x += i",
        "2",
    ),
    lasting(
        "signals ignored",
        {S.CPU_TIMEOUT},
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass",
        "while True: pass",
    ),
    lasting(
        "threads that print between blocks",
        S.OK,
        "import threading, time\ndef f():\n    while True:\n        print('x')\n        time.sleep(0.002)\n"
        "threading.Thread(target=f, daemon=True).start()",
        "import time\ntime.sleep(0.1)",
        "5",
        value="5",
    ),
    lasting(
        "threads that flood between blocks",
        {S.OK, S.OUTPUT_LIMIT, S.SESSION_LOST},
        "import threading, os\ndef f():\n    while True: os.write(1, b'x' * 4096)\n"
        "threading.Thread(target=f, daemon=True).start()",
        "5",
    ),
    lasting(
        "a switch interval of an hour",
        {S.SESSION_LOST, S.OK, S.WALL_TIMEOUT, S.CPU_TIMEOUT},
        "import sys, threading\nsys.setswitchinterval(3600)\ndef f():\n    while True: pass\n"
        "threading.Thread(target=f, daemon=True).start()",
        "1",
        limits={"wall_seconds": 1.0, "cpu_seconds": 1.0},
    ),
    lasting(
        "a recursion limit of nothing",
        WHATEVER,
        "import sys\ndef f(n):\n    try: sys.setrecursionlimit(n)\n    except RecursionError: f(n + 5)\nf(5)",
        "1 / 0",
    ),
    lasting(
        "all memory kept",
        {S.OK, S.MEMORY, S.EXCEPTION, S.EXIT, S.SESSION_LOST},
        "x = []\ntry:\n    while True: x.append(bytearray(1 << 16))\nexcept MemoryError: pass\ntry:\n"
        "    while True: x.append(bytearray(64))\nexcept MemoryError: pass",
        "1",
        hoards=True,
    ),
    lasting(
        "all descriptors kept",
        {S.OK},
        "import os\nx = []\ntry:\n    while True: x.append(os.dup(0))\nexcept OSError: pass",
        "1",
        value="1",
    ),
    lasting("output closed", {S.OK, S.EXCEPTION}, "import sys\nsys.stdout.close()\nsys.stderr.close()", "1"),
    lasting("descriptors of output closed", {S.OK}, "import os\nos.close(1)\nos.close(2)", "2", value="2"),
    lasting(
        "stopped",
        {S.SESSION_LOST, S.OK},
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "1",
        limits={"wall_seconds": 0.6},
    ),
    lasting("a block that leaves", S.SESSION_LOST, "import os\nos._exit(0)", "1"),
    lasting("a block that crashes", S.SESSION_LOST, "import ctypes\nctypes.string_at(0)", "1"),
    lasting("a block that violates", S.SESSION_LOST, f"{CTYPES}libc.syscall(246, 0, 0, 0, 0)", "1", guards="seccomp"),
    lasting("an exit asked for", S.OK, "x = 5\nimport sys\nsys.exit(3)", "x", value="5"),
    lasting("input of an earlier block", S.OK, "import sys\ns = sys.stdin", "s.read()", value="''"),
    lasting("a syntax error", S.OK, "x = 1", "x = = 2", "x", value="1"),
    lasting(
        "a future import that lasts",
        S.OK,
        "from __future__ import annotations",
        "def f(x: int): pass\nf.__annotations__['x']",
        value=".*int.*",
    ),
    lasting(
        "a folder left behind",
        {S.OK, S.EXCEPTION},
        "import os\nos.mkdir('d')\nos.chdir('d')\nos.rmdir('../d')",
        "open('f', 'w')",
    ),
    lasting(
        "files from block to block", S.OK, "open('f', 'w').write('here')", "open('f').read()", value="'here'", guards=""
    ),
]

ATTACKS: list[Attack] = [*FORGED, *SESSIONS]
