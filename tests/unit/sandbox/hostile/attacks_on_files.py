"""Lines 1 to 13 of the open list: reading, writing, filling and littering."""

from __future__ import annotations

from attack import CTYPES, Attack, S, attack, refused

READING = [
    refused(1, "read a password file", "open('/etc/shadow').read()", "landlock"),
    refused(1, "read a world-readable file", "open('/etc/passwd').read()", "landlock"),
    refused(1, "list the root folder", "import os\nos.listdir('/')", "landlock"),
    refused(2, "the first process's environment", "open('/proc/1/environ').read()", "landlock"),
    refused(2, "the parent's environment", "import os\nopen(f'/proc/{os.getppid()}/environ').read()", "landlock"),
    refused(2, "the trainer's environment", "open('/proc/@TRAINER@/environ').read()", "landlock"),
    refused(2, "the trainer's memory", "open('/proc/@TRAINER@/mem', 'rb').read(1)", "landlock"),
    refused(2, "the trainer's descriptor", "open('/proc/@TRAINER@/fd/@DESCRIPTOR@').read()", "landlock"),
    refused(3, "its own environment", "open('/proc/self/environ').read()", "landlock"),
    refused(3, "its own memory map", "open('/proc/self/maps').read()", "landlock"),
    refused(3, "its own memory, for writing", "open('/proc/self/mem', 'r+b')", "landlock"),
    refused(3, "its own descriptors", "import os\nos.listdir('/proc/self/fd')", "landlock"),
    refused(3, "its thread's memory", "import os\nopen(f'/proc/thread-self/mem', 'rb')", "landlock"),
    refused(4, "keys in the home folder", "import os\nos.listdir('@HOME@/.ssh')", "landlock"),
    refused(4, "cloud credentials", "open('@HOME@/.aws/credentials').read()", "landlock"),
    refused(4, "the home folder", "import os\nos.listdir('@HOME@'), os.listdir('/home')", "landlock"),
    refused(4, "the trainer's checkpoint", "open('@FILE@').read()", "landlock"),
    refused(4, "the repository", "open('@REPOSITORY@/pyproject.toml').read()", "landlock"),
    refused(4, "the repository's folder", "import os\nos.listdir('@REPOSITORY@')", "landlock"),
    refused(
        6, "follow a symbolic link out", "import os\nos.symlink('@FILE@', 'link')\nopen('link').read()", "landlock"
    ),
    refused(6, "make a hard link to outside", "import os\nos.link('@FILE@', 'link')\nopen('link').read()", "landlock"),
    refused(6, "rename a file in from outside", "import os\nos.rename('@FILE@', 'mine')", "landlock mount_namespace"),
    refused(7, "climb out by a relative path", "open('../' * 20 + 'etc/passwd').read()", "landlock"),
    refused(7, "see a neighbour's folder", "import os\nos.listdir('..')", "landlock"),
    refused(
        7,
        "climb out from a folder opened by path only",
        "import os\nup = os.open('/', os.O_PATH | os.O_DIRECTORY)\nos.open('etc/passwd', os.O_RDONLY, dir_fd=up)",
        "landlock",
    ),
    refused(
        0,
        "open what was opened by path only",
        "import os\nfd = os.open('/etc/passwd', os.O_PATH)\nopen(f'/proc/self/fd/{fd}').read()",
        "landlock",
    ),
    refused(
        0, "read what was opened by path only", "import os\nos.read(os.open('/etc/passwd', os.O_PATH), 9)", "landlock"
    ),
    attack(
        7,
        "climb out from an inherited descriptor",
        S.OK,
        "import os\nfound = []\nfor fd in range(1024):\n"
        "    try: found.append(os.open('../' * 9 + 'etc/passwd', os.O_RDONLY, dir_fd=fd))\n"
        "    except OSError: pass\nfound",
        value=r"\[\]",
    ),
    refused(
        7,
        "climb out with openat2",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nhow = (ctypes.c_ulong * 3)(0, 0, 0)\n"
        "assert libc.syscall(437, -100, b'/etc/passwd', how, 24) >= 0",
        "landlock seccomp",
    ),
]

WRITING = [
    refused(5, "the temporary folder", "open('/tmp/@MARK@', 'w')", "landlock mount_namespace"),
    refused(5, "another temporary folder", "open('/var/tmp/@MARK@', 'w')", "landlock mount_namespace"),
    refused(5, "the trainer's checkpoint", "open('@FILE@', 'a').write('')", "landlock mount_namespace"),
    refused(5, "truncate the checkpoint", "import os\nos.truncate('@FILE@', 2)", "landlock mount_namespace"),
    refused(5, "the home folder", "open('@HOME@/@MARK@', 'w')", "landlock mount_namespace"),
    refused(
        5,
        "a start-up hook",
        "import os\nopen(os.path.dirname(os.__file__) + '/site-packages/@MARK@.pth', 'a').close()\n"
        "os.unlink(os.path.dirname(os.__file__) + '/site-packages/@MARK@.pth')",
        "landlock mount_namespace",
    ),
    refused(
        5, "a module of the library", "import os\nopen(os.path.dirname(os.__file__) + '/this.py', 'a')", "landlock"
    ),
    refused(5, "delete from the library", "import os\nos.unlink(os.path.dirname(os.__file__) + '/@MARK@')", ""),
    refused(0, "change a mode outside", "import os\nos.chmod('@FILE@', 0o666)", "seccomp mount_namespace"),
    refused(0, "change times outside", "import os\nos.utime('@FILE@')", "seccomp mount_namespace"),
    refused(0, "change an owner", "import os\nopen('f', 'w').close()\nos.chown('f', 12, 12)", ""),
    refused(0, "extended attributes", "import os\nopen('f', 'w').close()\nos.setxattr('f', 'user.x', b'1')", "seccomp"),
    refused(13, "shared memory by hand", "open('/dev/shm/@MARK@', 'w')", "landlock mount_namespace"),
    refused(
        13,
        "shared memory",
        "from multiprocessing import shared_memory as m\nm.SharedMemory('@MARK@', create=True, size=9).unlink()",
        "landlock mount_namespace",
    ),
    attack(
        13,
        "a named semaphore",
        S.OK,
        f"{CTYPES}(libc.sem_open(b'/@MARK@', 0o100, 0o600, 1), ctypes.get_errno() in (1, 13, 30, 38))",
        guards="landlock mount_namespace",
        value=r"\(0, True\)",
    ),
    attack(
        13,
        "a lock of multiprocessing, which needs no name here",
        S.OK,
        "import multiprocessing\nlock = multiprocessing.Lock()\nwith lock: pass\nlock.acquire(False)",
        guards="seccomp",
        value="True",
    ),
    refused(0, "a device", "open('/dev/kmsg', 'w')", "landlock"),
    refused(0, "a disk", "open('/dev/vda', 'rb'), open('/dev/sda', 'rb')", "landlock"),
    refused(0, "a kernel setting", "open('/proc/sys/vm/drop_caches', 'w')", ""),
    refused(0, "its own oom score", "open('/proc/self/oom_score_adj', 'w').write('-1000')", "landlock"),
    refused(0, "a control group", "open('/sys/fs/cgroup/cgroup.procs', 'w')", ""),
]

FILLING = [
    refused(
        8,
        "one file for ever",
        "f = open('big', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
        "rlimits",
        says="too large",
    ),
    refused(
        8,
        "many files for ever",
        "for i in range(10**6):\n    open(str(i), 'wb').write(b'x' * (1 << 20))",
        "mount_namespace",
        says="No space left",
        otherwise={S.EXCEPTION, S.CPU_TIMEOUT},
        limits={"cpu_seconds": 0.5},
    ),
    refused(
        9,
        "a million empty files",
        "for i in range(10**6): open(str(i), 'w').close()",
        "mount_namespace",
        says="No space left",
        otherwise={S.EXCEPTION, S.CPU_TIMEOUT},
        limits={"cpu_seconds": 0.5},
    ),
    refused(12, "a sparse terabyte", "open('sparse', 'wb').truncate(1 << 40)", "rlimits", says="too large"),
    refused(
        12,
        "a sparse file by seeking",
        "f = open('s', 'wb', buffering=0)\nf.seek(1 << 40)\nf.write(b'x')",
        "rlimits",
        says="too large",
    ),
    refused(
        12,
        "reserve a terabyte",
        "import os\nf = open('s', 'wb')\nos.posix_fallocate(f.fileno(), 0, 1 << 40)",
        "",
        says="too large|No space",
    ),
    attack(
        0,
        "files grown by a shared mapping",
        {S.EXCEPTION, S.SIGNAL, S.MEMORY},
        "import mmap\nmaps = []\nfor i in range(999):\n    f = open(str(i), 'w+b')\n    f.truncate(4 << 20)\n"
        "    m = mmap.mmap(f.fileno(), 4 << 20)\n    m[::4096] = b'x' * 1024\n    maps.append(m)",
        guards="mount_namespace",
        otherwise={S.EXCEPTION, S.SIGNAL, S.MEMORY, S.CPU_TIMEOUT, S.OK},
        hoards=True,
    ),
]

NAMES = [
    attack(
        10,
        "long, odd and deep names",
        S.OK,
        "import os\nopen('n' * 255, 'w').close()\nopen(b'\\xff\\n\\x01', 'w').close()\nopen('-rf *', 'w').close()\n"
        "for _ in range(900):\n    os.mkdir('d' * 9)\n    os.chdir('d' * 9)",
    ),
    refused(10, "a name of 256 bytes", "open('n' * 256, 'w')", "", says="too long"),
    attack(
        10,
        "two thousand folders deep",
        {S.OK, S.EXCEPTION},
        "import os\nfor _ in range(2000):\n    os.mkdir('d')\n    os.chdir('d')",
    ),
    attack(
        10,
        "a folder that may not be read",
        S.OK,
        "import os\nos.mkdir('a', 0)\nos.makedirs('b/c')\nopen('b/c/f', 'w').close()\nfor p in ('b/c', 'b'):\n"
        "    try: os.chmod(p, 0)\n    except OSError: pass",
    ),
    refused(11, "a named pipe", "import os\nos.mkfifo('pipe')", "seccomp"),
    refused(11, "a device", "import os, stat\nos.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(8, 0))", ""),
    refused(11, "a named socket", "import socket\nsocket.socket(socket.AF_UNIX).bind('s')", "seccomp"),
    attack(
        11,
        "a setuid file",
        {S.OK, S.EXCEPTION},
        "import os\nopen('f', 'w').close()\nos.chmod('f', 0o6777)",
    ),
    attack(
        6,
        "links that lead nowhere, round and out",
        S.OK,
        "import os\nos.symlink('b', 'a')\nos.symlink('a', 'b')\nos.symlink('/', 'root')\nos.symlink('@FILE@', 'file')\n"
        "os.mkdir('d')\nos.symlink('/tmp', 'd/tmp')",
    ),
    attack(
        0,
        "a file deleted and kept open",
        S.OK,
        "import os, threading, time\nf = open('f', 'wb')\nf.write(b'x' * (1 << 20))\nf.flush()\nos.unlink('f')",
    ),
    attack(0, "its folder removed under it", {S.OK, S.EXCEPTION}, "import os\nos.rmdir(os.getcwd())"),
    attack(
        0,
        "a lock left behind",
        S.OK,
        "import fcntl\nf = open('lock', 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\nfcntl.lockf(f, fcntl.LOCK_EX)",
    ),
    refused(
        0,
        "lock a file of the library",
        "import fcntl, os\nf = open(os.__file__)\nfcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "raise RuntimeError('locked')",
        "",
    ),
    refused(
        0, "a lease on a file of the library", "import fcntl, os\nfcntl.fcntl(open(os.__file__), 1024, 0)", "seccomp"
    ),
    refused(
        0, "run a program from scratch", "import os\nopen('p', 'w').write('#!/bin/sh')\nos.execv('p', ['p'])", "seccomp"
    ),
    attack(
        0,
        "load a library from scratch",
        {S.OK, S.EXCEPTION},
        "import ctypes, shutil, _ctypes\nshutil.copyfile(_ctypes.__file__, 'mine.so')\nctypes.CDLL('./mine.so')",
    ),
]

ATTACKS: list[Attack] = [*READING, *WRITING, *FILLING, *NAMES]
