"""Lines 26 to 42 of the open list: raw calls, privileges, network and shared objects.

Numbers are those of x86-64, or of every architecture from 424 on. No call would change the machine if it got through.
"""

from __future__ import annotations

from attack import CTYPES, Attack, S, attack, machine, refused, refused_call

IS_X86 = machine() == "x86_64"

RUN_CODE = (
    "import ctypes, mmap\n"
    "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
    "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
    "def run(*code):\n    page.seek(0)\n    page.write(bytes(code))\n"
    "    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()\n"
)
BUFFER = "b = ctypes.create_string_buffer(256)\n"

PROCESSES = [
    refused_call(26, "attach to the parent", "libc.ptrace(16, os.getppid(), 0, 0)"),
    refused_call(26, "attach to a bystander", "libc.ptrace(16, @VICTIM@, 0, 0)"),
    refused_call(26, "ask to be traced", "libc.ptrace(0, 0, 0, 0)"),
    refused_call(27, "read the parent's memory", "libc.process_vm_readv(os.getppid(), b, 1, b, 1, 0)", setup=BUFFER),
    refused_call(27, "write the trainer's memory", "libc.process_vm_writev(@TRAINER@, b, 1, b, 1, 0)", setup=BUFFER),
    refused_call(27, "pidfd_open", "libc.syscall(434, @TRAINER@, 0)"),
    refused_call(27, "pidfd_getfd", "libc.syscall(438, 0, @DESCRIPTOR@, 0)"),
    refused_call(27, "process_madvise", "libc.syscall(440, 0, 0, 0, 0, 0)"),
    refused_call(27, "kcmp", "libc.syscall(312, @TRAINER@, os.getpid(), 0, 0, 0)"),
]

PRIVILEGES = [
    refused_call(28, "a new user namespace", "libc.unshare(0x10000000)"),
    refused_call(28, "a new mount namespace", "libc.unshare(0x00020000)"),
    refused_call(28, "another's namespace", "libc.setns(0, 0)"),
    refused_call(28, "mount", "libc.mount(b'none', b'.', b'tmpfs', 0, None)"),
    refused_call(28, "pivot_root", "libc.syscall(155, b'.', b'.')"),
    refused_call(28, "chroot", "libc.chroot(b'.')"),
    refused_call(28, "umount", "libc.umount2(b'.', 2)"),
    refused_call(28, "open a mount tree", "libc.syscall(428, -100, b'/', 1)"),
    refused_call(28, "open a file system", "libc.syscall(430, b'tmpfs', 0)"),
    refused_call(28, "change a mount", "libc.syscall(442, -100, b'/', 0, 0, 0)"),
    refused_call(29, "bpf", "libc.syscall(321, 0, b, 48)", setup=BUFFER),
    refused_call(29, "perf_event_open", "libc.syscall(298, b, 0, -1, -1, 0)", setup=BUFFER),
    refused_call(29, "userfaultfd", "libc.syscall(323, 1)"),
    refused_call(29, "io_uring", "libc.syscall(425, 1, b)", setup=BUFFER),
    refused_call(29, "add a key", "libc.syscall(248, b'user', b'x', b'y', 1, -2)"),
    refused_call(29, "search keys", "libc.syscall(250, 0, -3, 0)"),
    refused_call(29, "open by handle", "libc.syscall(304, -100, b, 0)", setup=BUFFER),
    refused_call(29, "watch files", "libc.inotify_init()"),
    refused_call(29, "watch all files", "libc.syscall(300, 0, 0)"),
    refused_call(30, "a file in memory", "libc.memfd_create(b'x', 0)"),
    refused_call(30, "secret memory", "libc.syscall(447, 0)", errno="1|38"),
    refused_call(30, "execveat", "libc.syscall(322, 0, b'', None, None, 0x1000)"),
    refused(30, "fexecve", "import os, sys\nos.execve(os.open(sys.executable, os.O_RDONLY), ['x'], {})", "seccomp"),
    refused_call(33, "be dumpable again", "libc.prctl(4, 1, 0, 0, 0)"),
    refused_call(33, "drop no_new_privs", "libc.prctl(38, 0, 0, 0, 0)"),
    refused_call(33, "a filter of its own", "libc.prctl(22, 2, b, 0, 0)", setup=BUFFER),
    refused_call(33, "a filter by the other call", "libc.syscall(317, 1, 0, b)", setup=BUFFER),
    refused_call(33, "strict mode", "libc.syscall(317, 0, 0, None)", otherwise={S.SIGNAL, S.SYSCALL_VIOLATION}),
    refused_call(33, "outlive the parent", "libc.prctl(1, 0, 0, 0, 0)"),
    refused_call(33, "adopt orphans", "libc.prctl(36, 1, 0, 0, 0)"),
    refused_call(33, "let others trace it", "libc.prctl(0x59616d61, -1, 0, 0, 0)"),
    refused_call(33, "rewrite its own map", "libc.prctl(35, 1, 0, 0, 0)"),
    refused_call(33, "a new ruleset", "libc.syscall(444, 0, 0, 1)"),
    refused(34, "raise a limit", "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))", "rlimits"),
    refused(34, "lower the CPU limit", "import resource as r\nr.setrlimit(r.RLIMIT_CPU, (1, 1))", "seccomp"),
    refused(34, "prlimit of another", "import resource as r\nr.prlimit(@TRAINER@, r.RLIMIT_NOFILE)", "seccomp"),
    refused_call(34, "prlimit of the trainer", "libc.prlimit(@TRAINER@, 9, None, b)", setup=BUFFER),
    refused(34, "be nicer", "import os\nos.nice(-5)", ""),
    refused(34, "a real-time policy", "import os\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))", ""),
    refused(34, "choose its core", "import os\nos.sched_setaffinity(0, [0])", "seccomp"),
    refused_call(34, "lock memory", "libc.mlockall(3)", errno="1|12"),
    refused(35, "set the clock", "import time\ntime.clock_settime(time.CLOCK_REALTIME, time.time())", ""),
    refused_call(35, "settimeofday", "libc.settimeofday(b, None)", setup=BUFFER),
    refused_call(35, "adjtimex", "libc.adjtimex(b)", setup="b = (ctypes.c_long * 40)(1)\n"),
    refused(35, "the host's name", "import socket\nsocket.sethostname(socket.gethostname())", ""),
    refused_call(35, "reboot", "libc.syscall(169, 0, 0, 0, None)"),
    refused_call(35, "the kernel's log", "libc.klogctl(3, b, 100)", setup=BUFFER),
    refused_call(36, "fixed addresses", "libc.personality(0x0040000)"),
    refused_call(36, "modify_ldt", "libc.syscall(154, 0, b, 16)", setup=BUFFER),
    refused_call(36, "iopl", "libc.syscall(172, 3)"),
    refused_call(36, "ioperm", "libc.syscall(173, 0x80, 1, 1)"),
    refused_call(37, "be root", "libc.setuid(0)"),
    refused_call(37, "be of root's group", "libc.setgid(0)"),
    refused_call(37, "all groups", "libc.setgroups(1, b)", setup=BUFFER),
    refused_call(
        37, "all capabilities", "libc.syscall(126, h, b)", setup=BUFFER + "h = (ctypes.c_uint * 2)(0x20080522, 0)\n"
    ),
    refused_call(0, "a call that does not exist", "libc.syscall(4000)", errno="38"),
]

CONVENTIONS = [
    attack(31, "the x32 convention", S.SYSCALL_VIOLATION, f"{CTYPES}libc.syscall(0x40000000 | 39)", guards="seccomp"),
    attack(31, "x32 execve", S.SYSCALL_VIOLATION, f"{CTYPES}libc.syscall(0x40000000 | 520, 0, 0, 0)", guards="seccomp"),
    attack(
        32,
        "the 32-bit convention",
        S.SYSCALL_VIOLATION,
        RUN_CODE + "run(0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3)",  # mov eax, getpid; int 0x80; ret
        guards="seccomp",
        otherwise={S.OK, S.SIGNAL},
    ),
    attack(
        32,
        "sysenter",
        {S.SYSCALL_VIOLATION, S.SIGNAL},
        RUN_CODE + "run(0xb8, 20, 0, 0, 0, 0x0f, 0x34, 0xc3)",
        guards="seccomp",
        otherwise={S.OK, S.SIGNAL},
    ),
    attack(
        0,
        "a fork from its own machine code",
        S.OK,
        RUN_CODE + "run(0xb8, 57, 0, 0, 0, 0x0f, 0x05, 0xc3)",  # mov eax, fork; syscall; ret
        value="-1",
        guards="seccomp",
        otherwise={S.OK, S.PROTOCOL_ERROR, S.EXIT},
    ),
    attack(
        0,
        "code made executable later",
        S.OK,
        "import ctypes, mmap\npage = mmap.mmap(-1, 4096)\n"
        "page.write(bytes([0xb8, 41, 0, 0, 0, 0xbf, 2, 0, 0, 0, 0xbe, 1, "
        "0, 0, 0, 0x31, 0xd2, 0x0f, 0x05, 0xc3]))\naddress = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), 4096, 5)\n"
        "ctypes.CFUNCTYPE(ctypes.c_long)(address)()",  # socket(AF_INET, SOCK_STREAM, 0)
        value="-1",
        guards="seccomp",
    ),
    attack(
        0,
        "the vsyscall page",
        {S.OK, S.SIGNAL},
        RUN_CODE
        + "run(0x31, 0xff, 0x48, 0xc7, 0xc0, 0, 0, 0x60, 0xff, 0xff, 0xd0, 0xc3)",  # gettimeofday(0) at the fixed page
    ),
    attack(0, "an illegal instruction", S.SIGNAL, RUN_CODE + "run(0x0f, 0x0b)"),
    attack(0, "a halt", S.SIGNAL, RUN_CODE + "run(0xf4)"),
    attack(0, "a loop of two bytes", S.CPU_TIMEOUT, RUN_CODE + "run(0xeb, 0xfe)"),
    attack(
        0,
        "a breakpoint",
        S.SIGNAL,
        RUN_CODE + "run(0xcc, 0xc3)",
    ),
    attack(0, "a negative call", S.SYSCALL_VIOLATION, f"{CTYPES}libc.syscall(-1)", guards="seccomp"),
    attack(0, "load a kernel module", S.SYSCALL_VIOLATION, f"{CTYPES}libc.syscall(175, 0, 0, b'')", guards="seccomp"),
    attack(0, "load another kernel", S.SYSCALL_VIOLATION, f"{CTYPES}libc.syscall(246, 0, 0, 0, 0)", guards="seccomp"),
    attack(0, "stop swapping", S.SYSCALL_VIOLATION, f"{CTYPES}libc.syscall(168, b'none')", guards="seccomp"),
]

NETWORK = [
    refused(
        38,
        "connect here",
        "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), timeout=1)",
        "seccomp net_namespace",
    ),
    refused(38, "connect over version 6", "import socket\nsocket.socket(socket.AF_INET6).connect(('::1', 80))", ""),
    refused(38, "connect outside", "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)", ""),
    refused(38, "look up a name", "import socket\nsocket.getaddrinfo('example.com', 80)", ""),
    refused(
        38,
        "fetch a page",
        "import urllib.request as u\nu.urlopen('http://127.0.0.1:@PORT@/', timeout=1)",
        "seccomp net_namespace",
    ),
    refused(
        38, "send a datagram", "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))", ""
    ),
    refused(38, "listen", "import socket\nsocket.create_server(('127.0.0.1', 0))", "seccomp"),
    refused(39, "a local socket", "import socket\nsocket.socket(socket.AF_UNIX)", "seccomp"),
    refused(
        39, "the container daemon", "import socket\nsocket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')", ""
    ),
    refused(
        39,
        "an abstract socket",
        "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0@MARK@')",
        "seccomp net_namespace",
    ),
    refused(
        39,
        "a named socket from a pair",
        "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', '/dev/log')",
        "",
    ),
    refused(
        39,
        "an abstract socket from a pair",
        "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.connect('\\0@MARK@')",
        "",
    ),
    refused(
        39,
        "descriptors through a pair",
        "import socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [1])\nsocket.recv_fds(b, 9, 9)",
        "seccomp",
    ),
    refused(40, "netlink", "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", "seccomp"),
    refused(40, "the hypervisor", "import socket\nsocket.socket(40, socket.SOCK_STREAM)", "seccomp"),
    refused(40, "the kernel's ciphers", "import socket\nsocket.socket(38, socket.SOCK_SEQPACKET)", "seccomp"),
    refused(40, "a raw socket", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", ""),
    refused(40, "a packet socket", "import socket\nsocket.socket(17, socket.SOCK_RAW)", ""),
    refused(40, "a pair of another family", "import socket\nsocket.socketpair(socket.AF_INET)", ""),
    refused_call(41, "shared memory", "libc.shmget(4711, 100, 0o1600)"),
    refused_call(41, "attach shared memory", "libc.syscall(30, 0, 0, 0)"),
    refused_call(41, "semaphores", "libc.semget(4711, 1, 0o1600)"),
    refused_call(41, "a message queue", "libc.msgget(4711, 0o1600)"),
    refused_call(41, "a POSIX message queue", "libc.syscall(240, b'x', 0o102, 0o600, None)"),
    attack(
        42,
        "an event loop without a network",
        S.OK,
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nasyncio.run(f())",
        value="5",
    ),
    attack(
        0,
        "descriptors without end",
        {S.EXCEPTION},
        "import os\nkept = []\nwhile True: kept.append(os.pipe())",
        says="Too many open files",
    ),
    attack(
        0,
        "epoll, timers and signals by descriptor",
        S.OK,
        "import select, os, ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ne = select.epoll()\nr, w = os.pipe()\n"
        "e.register(r)\nt = libc.timerfd_create(1, 0)\ne.register(t)\nos.write(w, b'x')\n"
        "e.register(os.eventfd(1))\nlen(e.poll(1))",
        value="2",
    ),
    attack(
        0,
        "an epoll that watches itself",
        {S.OK, S.EXCEPTION},
        "import select\ne = select.epoll()\ne.register(e.fileno())",
    ),
    refused(0, "resize the supervisor's pipe", "import fcntl\nfcntl.fcntl(1, 1031, 4096)", "seccomp"),
    refused(0, "type into a terminal", "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')", ""),
    refused_call(0, "splice", "libc.splice(0, None, 1, None, 10, 0)"),
]

X86_ONLY = {attack.id for attack in CONVENTIONS}
ATTACKS: list[Attack] = [
    one
    for one in (*PROCESSES, *PRIVILEGES, *CONVENTIONS, *NETWORK)
    if IS_X86 or ("libc.syscall" not in one.code and one.id not in X86_ONLY)
]
