"""Lines 43 to 53 of the open list: memory and time."""

from __future__ import annotations

from attack import MIB, Attack, S, attack

GROWING = {S.MEMORY, S.EXCEPTION}

MEMORY = [
    attack(43, "ten gigabytes at once", S.MEMORY, "bytearray(10 << 30)", guards="rlimits", hoards=True),
    attack(44, "a growing list", S.MEMORY, "x = []\nwhile True: x.append('x' * 1_000_000)", hoards=True),
    attack(
        44,
        "a growing list that catches",
        {S.CPU_TIMEOUT, S.MEMORY},
        "x = []\nwhile True:\n    try: x.append('x' * 1_000_000)\n    except MemoryError: pass",
        hoards=True,
        limits={"cpu_seconds": 0.5},
    ),
    attack(
        45,
        "a large array",
        {S.MEMORY, S.EXCEPTION},
        "import numpy as np\nnp.ones((40000, 40000))",
        says="allocate|MemoryError|Memory",
        hoards=True,
        limits={"memory_bytes": 512 * MIB},
    ),
    attack(
        46,
        "shared anonymous memory",
        {S.EXCEPTION, S.MEMORY, S.SIGNAL},
        "import mmap\nm = mmap.mmap(-1, 1 << 30)\nm[::4096] = b'x' * (1 << 18)",
        hoards=True,
    ),
    attack(
        46,
        "shared anonymous memory in small pieces",
        {S.EXCEPTION, S.MEMORY},
        "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 1 << 22)\n    m[::4096] = b'x' * 1024\n"
        "    x.append(m)",
        hoards=True,
    ),
    attack(
        0,
        "memory by remapping",
        S.OK,
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p\n"
        "a = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))\n"
        "b = libc.mremap(ctypes.c_void_p(a), ctypes.c_size_t(4096), ctypes.c_size_t(8 << 30), 1)\n"
        "b == ctypes.c_void_p(-1).value",
        value="True",
        guards="rlimits",
    ),
    attack(
        0,
        "memory in huge pages",
        S.OK,
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.mmap.restype = ctypes.c_void_p\n"
        "a = libc.mmap(None, ctypes.c_size_t(1 << 30), 3, 0x40022, -1, ctypes.c_long(0))\n"
        "a == ctypes.c_void_p(-1).value",
        value="True",
        guards="rlimits",
    ),
    attack(
        0,
        "memory by breaks",
        S.OK,
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.sbrk.restype = ctypes.c_void_p\n"
        "libc.sbrk(ctypes.c_long(8 << 30)) == ctypes.c_void_p(-1).value",
        value="True",
        guards="rlimits",
    ),
    attack(
        0,
        "memory in thread stacks",
        {S.EXCEPTION, S.MEMORY},
        "import threading, time\nthreading.stack_size(256 << 20)\nfor _ in range(64):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        guards="rlimits",
        hoards=True,
    ),
    attack(
        0,
        "a mapping over its own runner",
        {S.SIGNAL, S.EXIT, S.CPU_TIMEOUT, S.WALL_TIMEOUT},
        "import ctypes\nlibc = ctypes.CDLL(None)\nf = ctypes.cast(libc.mmap, ctypes.c_void_p).value & ~0xfff\n"
        "libc.mmap(ctypes.c_void_p(f), ctypes.c_size_t(1 << 16), 3, 0x32, -1, ctypes.c_long(0))",
        limits={"wall_seconds": 2.0, "cpu_seconds": 0.5},
    ),
    attack(
        0,
        "everything unmapped",
        {S.SIGNAL, S.OK},
        "import ctypes\nctypes.CDLL(None).munmap(ctypes.c_void_p(0), ctypes.c_size_t(1 << 46))",
    ),
    attack(
        0,
        "its own code made writable",
        S.SIGNAL,
        "import ctypes\nlibc = ctypes.CDLL(None)\naddress = ctypes.cast(libc.getpid, ctypes.c_void_p).value\n"
        "libc.mprotect(ctypes.c_void_p(address & ~0xfff), 8192, 7)\nctypes.memset(address, 0xf4, 16)\nlibc.getpid()",
    ),
    attack(
        0,
        "a broken heap",
        {S.SIGNAL, S.OK, S.EXCEPTION, S.EXIT},
        "import ctypes, random\nfor i in range(3000):\n"
        "    ctypes.memset(id(object()) + random.randrange(0, 1 << 16) * 16, 255, 8)",
    ),
]

TIME = [
    attack(47, "recursion", S.EXCEPTION, "def f(n): return f(n + 1)\nf(0)", says="RecursionError"),
    attack(
        47,
        "recursion without a limit",
        {S.MEMORY, S.SIGNAL, S.EXCEPTION, S.CPU_TIMEOUT},
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)",
        hoards=True,
        limits={"cpu_seconds": 0.4},
    ),
    attack(48, "a power that holds the lock", S.CPU_TIMEOUT, "pow(3, 10**9)"),
    attack(48, "ten to the ten to the eight", {S.CPU_TIMEOUT, S.MEMORY}, "10**(10**8)"),
    attack(48, "a factorial that holds the lock", S.CPU_TIMEOUT, "import math\nmath.factorial(10**7)"),
    attack(48, "a sum that holds the lock", S.CPU_TIMEOUT, "sum(iter(int, 1))"),
    attack(48, "a sort that never ends", S.CPU_TIMEOUT, "import itertools\nmax(itertools.permutations(range(30)))"),
    attack(49, "backtracking", S.CPU_TIMEOUT, "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')"),
    attack(
        50,
        "a factorisation that takes years",
        S.CPU_TIMEOUT,
        "import sympy\nsympy.factorint(sympy.nextprime(10**44) * sympy.nextprime(3 * 10**44))",
        limits={"memory_bytes": 512 * MIB, "cpu_seconds": 0.4},
    ),
    attack(
        50,
        "an integral that takes years",
        S.CPU_TIMEOUT,
        "from sympy import *\nx = symbols('x')\nintegrate(sqrt(sin(x**3) + exp(x) * log(x)**3) / (x**7 + tan(x)), x)",
        limits={"memory_bytes": 512 * MIB, "cpu_seconds": 0.4},
    ),
    attack(
        51,
        "a collection at each step",
        {S.OK, S.CPU_TIMEOUT},
        "import gc\ngc.set_threshold(1)\nx = [[] for _ in range(2000)]\nlen(gc.get_objects()) > 0",
        limits={"cpu_seconds": 1.0},
    ),
    attack(
        51,
        "a huge cycle",
        {S.OK, S.CPU_TIMEOUT, S.MEMORY},
        "x = []\nfor _ in range(3 * 10**5): x = [x]\nx.append(x)\ndel x",
        limits={"cpu_seconds": 1.0},
    ),
    attack(
        51,
        "every object of the zygote touched",
        {S.OK, S.CPU_TIMEOUT},
        "import gc\ngc.unfreeze()\nn = 0\nfor o in gc.get_objects(): n += isinstance(o, dict)\ngc.collect()\nn > 0",
        limits={"cpu_seconds": 1.0},
    ),
]

BOMBS = [
    attack(52, "a million parentheses", S.EXCEPTION, "eval('(' * 10**6 + ')' * 10**6)"),
    attack(52, "parentheses in the source", {S.EXCEPTION, S.MEMORY}, "(" * 5000 + ")" * 5000),
    attack(52, "a tower of operators", {S.EXCEPTION, S.MEMORY, S.SIGNAL}, "-" * 100_000 + "1"),
    attack(52, "a tower of attributes", {S.EXCEPTION, S.MEMORY, S.SIGNAL}, "x" + ".a" * 100_000),
    attack(52, "a literal of 3 MB", {S.OK, S.EXCEPTION, S.MEMORY}, "x = '" + "a" * 3_000_000 + "'"),
    attack(52, "a billion letters, folded", {S.OK, S.MEMORY, S.EXCEPTION}, '"x" * 10**9'),
    attack(52, "constants folded for ever", {S.MEMORY, S.EXCEPTION, S.CPU_TIMEOUT}, "x = 9**9**9**9"),
    attack(
        52,
        "thirty thousand names",
        {S.OK, S.MEMORY, S.CPU_TIMEOUT},
        "exec('\\n'.join(f'v{i} = {i}' for i in range(30_000)))",
        limits={"cpu_seconds": 1.0},
    ),
    attack(
        53,
        "a compressed gigabyte",
        S.MEMORY,
        "import zlib\nc = zlib.compressobj()\nd = b''.join(c.compress(bytes(1 << 20)) for _ in range(32)) + c.flush()\n"
        "x = [zlib.decompress(d) for _ in range(9)]",
        hoards=True,
    ),
    attack(
        53,
        "a pickle that asks for memory",
        {S.MEMORY, S.EXCEPTION},
        "import pickle\npickle.loads(b'\\x80\\x04\\x8e' + (1 << 40).to_bytes(8, 'little') + b'x')",
    ),
    attack(53, "a pickle that runs a program", S.EXCEPTION, 'import pickle\npickle.loads(b"cos\\nabort_not\\n(tR.")'),
    attack(53, "a deep JSON", S.EXCEPTION, "import json\njson.loads('[' * 10**6)", says="RecursionError"),
    attack(
        53,
        "a laughing XML",
        {S.EXCEPTION, S.MEMORY, S.CPU_TIMEOUT},
        "import xml.etree.ElementTree as E\ns = '<!DOCTYPE a [<!ENTITY a0 \"xxxxxxxxxx\">'\nfor i in range(9):\n"
        "    s += f'<!ENTITY a{i + 1} \"' + f'&a{i};' * 10 + '\">'\nE.fromstring(s + ']><a>&a9;</a>')",
    ),
]

CLOCKS = [
    attack(
        0,
        "clocks replaced",
        S.CPU_TIMEOUT,
        "import time\ntime.monotonic = time.time = time.process_time = lambda: 0\nwhile True: pass",
    ),
    attack(
        0,
        "short naps without end",
        S.WALL_TIMEOUT,
        "import time\nwhile True: time.sleep(0.01)",
    ),
    attack(
        0,
        "a thread that spins while the main one sleeps",
        S.CPU_TIMEOUT,
        "import threading, time\ndef f():\n    while True: pass\nthreading.Thread(target=f, daemon=True).start()\n"
        "time.sleep(60)",
    ),
    attack(
        0,
        "CPU time spent in the kernel",
        S.CPU_TIMEOUT,
        "import os\nfd = os.open('/dev/urandom', os.O_RDONLY)\nwhile True: os.read(fd, 1 << 20)",
    ),
    attack(
        0,
        "a lock that is never given",
        S.WALL_TIMEOUT,
        "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()",
    ),
    attack(0, "a wait without a subject", S.WALL_TIMEOUT, "import signal\nsignal.pause()"),
    attack(0, "a pipe that nobody writes", S.WALL_TIMEOUT, "import os\nr, w = os.pipe()\nos.read(r, 1)"),
]

ATTACKS: list[Attack] = [*MEMORY, *TIME, *BOMBS, *CLOCKS]
