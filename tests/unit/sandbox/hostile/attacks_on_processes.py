"""Lines 14 to 25 of the open list: processes, signals, and ways to end."""

from __future__ import annotations

from attack import CTYPES, Attack, S, attack, refused, refused_call

# A fork that succeeds runs the rest of the snippet twice, so a report may come twice or from the copy.
FORKED = {S.OK, S.EXCEPTION, S.EXIT, S.PROTOCOL_ERROR, S.WALL_TIMEOUT, S.CPU_TIMEOUT, S.SIGNAL, S.MEMORY}

MAKING = [
    refused(14, "fork", "import os\nif os.fork() == 0: os._exit(0)", "seccomp"),
    refused(14, "fork by a bare call", f"{CTYPES}assert libc.fork() >= 0", "seccomp", otherwise=FORKED),
    refused(14, "vfork", f"{CTYPES}assert libc.syscall(58) >= 0\nos._exit(0)", "seccomp", otherwise=FORKED),
    refused_call(14, "clone of a process", "libc.syscall(56, 17, 0, 0, 0, 0)", otherwise=FORKED),
    refused_call(14, "clone3", "libc.syscall(435, (ctypes.c_ulong * 11)(), 88)", errno="38", otherwise=FORKED),
    refused(
        14,
        "a fork bomb",
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(20)\n        os._exit(0)",
        "seccomp",
        otherwise=FORKED,
        limits={"wall_seconds": 1.5},
        alone=True,
        shoots=True,
    ),
    refused(
        15,
        "a daemon that writes later",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(60)\n"
        "        open('/tmp/@MARK@', 'w')\n    os._exit(0)",
        "seccomp",
        otherwise=FORKED,
    ),
    refused(15, "leave its session", "import os\nos.setsid()", "seccomp"),
    refused(15, "leave its process group", "import os\nos.setpgid(0, 0)", "seccomp"),
    refused(16, "run a program", "import subprocess\nsubprocess.run(['/bin/true'])", "seccomp"),
    refused(16, "run a shell", "import subprocess\nsubprocess.check_output('id', shell=True)", "seccomp"),
    attack(16, "os.system", S.OK, "import os\nos.system('true')", value=r"-1|32512|32256", guards="seccomp"),
    refused(16, "os.popen", "import os\nos.popen('id').read()", "seccomp"),
    refused(16, "spawn a program", "import os\nos.posix_spawn('/bin/true', ['true'], {})", "seccomp"),
    refused(
        16, "become a program", "import os\nos.execv('/bin/true', ['true'])", "seccomp", otherwise={S.EXIT, S.EXCEPTION}
    ),
    refused(
        16,
        "become another interpreter",
        "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(open(\"@FILE@\").read())'])",
        "seccomp",
        otherwise={S.EXIT, S.EXCEPTION},
    ),
    refused(
        16,
        "run the loader on a program",
        "import os\nos.execv('/lib64/ld-linux-x86-64.so.2', ['ld', '/bin/true'])",
        "seccomp",
        otherwise={S.EXIT, S.EXCEPTION},
    ),
    refused(16, "a pseudo-terminal", "import pty\npty.spawn('/bin/true')", "seccomp", otherwise=FORKED),
    refused(17, "a process pool", "import multiprocessing\nmultiprocessing.Pool(2)", "seccomp landlock"),
    refused(
        17,
        "a process executor",
        "from concurrent.futures import ProcessPoolExecutor as P\nlist(P(2).map(abs, [1]))",
        "seccomp landlock",
        limits={"wall_seconds": 10.0},
        otherwise=FORKED,
    ),
    refused(
        17,
        "a process by each start method",
        "import multiprocessing as m\nfailed = 0\nfor how in ('fork', 'spawn', 'forkserver'):\n"
        "    try: m.get_context(how).Process(target=abs, args=(1,)).start()\n    except OSError: failed += 1\n"
        "assert failed < 3",
        "seccomp",
        limits={"wall_seconds": 10.0},
        otherwise=FORKED,
    ),
]

SIGNALS = [
    refused(
        18,
        "kill everybody",
        "import os\nos.kill(-1, 9)",
        "seccomp",
        otherwise={S.SIGNAL, S.EXCEPTION, S.OK},
        shoots=True,
    ),
    refused(
        18,
        "kill its group",
        "import os\nos.kill(0, 9)",
        "seccomp",
        otherwise={S.SIGNAL, S.EXCEPTION, S.OK},
        shoots=True,
    ),
    refused(
        18,
        "kill its group by number",
        "import os\nos.killpg(os.getpgrp(), 9)",
        "seccomp",
        otherwise={S.SIGNAL},
        shoots=True,
    ),
    refused(
        18,
        "kill its parent",
        "import os\nos.kill(os.getppid(), 9)",
        "seccomp",
        otherwise={S.SIGNAL, S.OK, S.EXCEPTION},
        shoots=True,
    ),
    refused(18, "kill the trainer", "import os\nos.kill(@TRAINER@, 15)", "seccomp", shoots=True),
    refused(18, "kill a bystander", "import os\nos.kill(@VICTIM@, 15)", "seccomp", shoots=True),
    refused(18, "look whether a process lives", "import os\nos.kill(@VICTIM@, 0)", "seccomp"),
    refused_call(18, "a thread of the trainer", "libc.syscall(200, @TRAINER@, 0)"),
    refused_call(18, "a queued signal", "libc.sigqueue(@VICTIM@, 15, None)", shoots=True),
    refused_call(18, "a signal by pidfd", "libc.syscall(424, 0, 15, None, 0)", errno="1|9"),
    refused(0, "own signals of a descriptor", "import fcntl\nfcntl.fcntl(1, fcntl.F_SETOWN, @VICTIM@)", "seccomp"),
    attack(
        19,
        "ignore signals and spin",
        S.CPU_TIMEOUT,
        "import signal\nfor s in (1, 2, 15, 24): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
    ),
    attack(
        19,
        "block signals and sleep",
        S.WALL_TIMEOUT,
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: time.sleep(60)",
    ),
    attack(20, "stop itself", {S.WALL_TIMEOUT, S.OK}, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"),
    attack(20, "stop itself by raise", {S.WALL_TIMEOUT, S.OK}, "import signal\nsignal.raise_signal(signal.SIGTSTP)"),
    attack(
        21,
        "swallow the CPU signal",
        S.CPU_TIMEOUT,
        "import signal\nsignal.signal(signal.SIGXCPU, lambda *a: None)\nwhile True: pass",
    ),
    attack(
        21,
        "timers that raise and are swallowed",
        {S.CPU_TIMEOUT, S.EXCEPTION, S.SIGNAL},  # the interpreter itself gives up when errors come fast enough
        "import signal\ndef f(*a): raise KeyboardInterrupt\nsignal.signal(signal.SIGALRM, f)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\nwhile True:\n    try:\n        while True: pass\n"
        "    except BaseException: pass",
    ),
    attack(
        0,
        "a storm of profiling signals",
        {S.OK, S.EXCEPTION, S.CPU_TIMEOUT},
        "import signal\nsignal.signal(signal.SIGPROF, lambda *a: None)\n"
        "signal.setitimer(signal.ITIMER_PROF, 1e-6, 1e-6)\nx = sum(range(10**5))",
        limits={"cpu_seconds": 0.5},
    ),
    attack(
        0,
        "an unhandled alarm",
        S.SIGNAL,
        "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(60)",
    ),
    attack(22, "an exit hook that sleeps", S.WALL_TIMEOUT, "import atexit, time\natexit.register(time.sleep, 60)"),
    attack(22, "a clause that never ends", S.WALL_TIMEOUT, "import time\ntry: 1 / 0\nfinally: time.sleep(60)"),
    attack(
        22,
        "an exit that is caught",
        S.CPU_TIMEOUT,
        "while True:\n    try: raise SystemExit\n    except SystemExit: pass",
    ),
    attack(
        22,
        "a finaliser that sleeps",
        {S.WALL_TIMEOUT, S.OK},
        "import time\nclass A:\n    def __del__(self): time.sleep(60)\na = A()",
    ),
    attack(
        22,
        "a thread that outlives the code",
        S.WALL_TIMEOUT,
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    ),
    attack(
        22,
        "a thread shutdown that never ends",
        S.WALL_TIMEOUT,
        "import threading, time\nthreading._register_atexit(time.sleep, 60)",
    ),
]

ENDING = [
    attack(23, "leave at once with 0", S.EXIT, "import os\nprint('seen', flush=True)\nos._exit(0)", stdout="seen\n"),
    attack(23, "leave at once with 7", S.EXIT, "import os\nos._exit(7)"),
    attack(23, "leave by a bare call", S.EXIT, f"{CTYPES}libc._exit(0)"),
    attack(23, "an exit code", S.EXIT, "import sys\nprint('so far')\nsys.exit(3)", stdout="so far\n"),
    attack(23, "an exit text", S.EXIT, "import sys\nsys.exit('text')", says="text"),
    attack(23, "an exit of None", {S.OK, S.EXIT}, "raise SystemExit(None)"),
    attack(23, "an exit code of 256", {S.OK, S.EXIT}, "raise SystemExit(256)"),
    attack(23, "an exit code of 10**30", {S.EXIT, S.EXCEPTION}, "raise SystemExit(10**30)"),
    attack(
        23,
        "an exit code that raises",
        {S.EXIT, S.EXCEPTION},
        "class A:\n    def __str__(self): 1/0\nraise SystemExit(A())",
    ),
    attack(
        23, "an exit in an exit hook", {S.OK, S.EXIT, S.EXCEPTION}, "import atexit, os\natexit.register(os._exit, 0)"
    ),
    attack(24, "abort", S.SIGNAL, "import os\nos.abort()"),
    attack(24, "a null pointer", S.SIGNAL, "import ctypes\nctypes.string_at(0)"),
    attack(
        24,
        "an endless recursion in C",
        {S.SIGNAL, S.MEMORY, S.EXCEPTION},
        "import sys, json\nsys.setrecursionlimit(10**9)\njson.loads('[' * 10**6)",
    ),
    attack(
        24,
        "faulthandler",
        S.SIGNAL,
        "import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(0)",
        says="Segmentation fault",
    ),
    attack(24, "kill itself", {S.SIGNAL, S.OK}, "import os\nos.kill(os.getpid(), 9)"),
    attack(
        0,
        "a signal as if the filter had killed it",
        {S.SIGNAL, S.SYSCALL_VIOLATION, S.OK},
        "import os\nos.kill(os.getpid(), 31)",
    ),
    attack(0, "a signal as if its time were over", {S.SIGNAL, S.OK}, "import os\nos.kill(os.getpid(), 24)"),
    attack(0, "a real-time signal", {S.SIGNAL, S.OK}, "import os\nos.kill(os.getpid(), 40)"),
    attack(0, "an exit code that looks like hardening", S.EXIT, "import os\nos._exit(125)"),
    attack(
        25,
        "two hundred threads",
        {S.OK, S.EXCEPTION, S.MEMORY},
        "import threading, time\nfor _ in range(200): threading.Thread(target=time.sleep, args=(0.05,)).start()",
        limits={"memory_bytes": 1 << 30},
    ),
    attack(
        25,
        "leave while threads run",
        S.EXIT,
        "import threading, time, os\nfor _ in range(5): threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "os._exit(0)",
        limits={"memory_bytes": 1 << 30},
    ),
    attack(
        25,
        "leave while a thread runs and the code raises",
        S.WALL_TIMEOUT,
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n1 / 0",
    ),
    attack(
        0,
        "threads without end",
        {S.EXCEPTION, S.MEMORY, S.CPU_TIMEOUT},
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        limits={"cpu_seconds": 2.0},
        alone=True,
    ),
    attack(
        0,
        "threads that compute",
        S.CPU_TIMEOUT,
        "import threading\nfor _ in range(4): threading.Thread(target=pow, args=(3, 10**8)).start()",
        limits={"memory_bytes": 1 << 30},
    ),
]

ATTACKS: list[Attack] = [*MAKING, *SIGNALS, *ENDING]
