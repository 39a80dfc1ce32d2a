"""Runs model-written Python in a process that can harm nothing but itself.

    in the trainer            local.py      the face: calls, sessions
                              layers.py     what each isolation layer is for; library.py: what snippets may read
                              latency.py    measures it; figures.py: arithmetic, contenders.py: rows, baselines.py:
                                            what it is compared with, footprint.py: memory
                              csrc/sandbox  a thread of its own: supervisor, mailbox (orders and results), dispatcher
                                            (queue, sessions), nursery (live children: time, output, ends), verdict
    zygote processes          boot.py       their entry point
                              zygote.py     loads libraries, then forks hardened children; never sees code or output
                              isolation.py  enters the layers that this machine allows
                              semaphores.py multiprocessing's, for threads alone
                              csrc/sandbox  zygote (fork, reap), harden, policy, landlock, namespaces, cgroup, scratch
    one process per snippet   runner.py     runs blocks of code
    or session                csrc/sandbox  frame: the commands and reports between it and the supervisor

The trainer never forks: it starts interpreters of which nothing is its own. There is a bare zygote, and, started by the
first code that names such a module, one that holds numpy and sympy. This file imports nothing, because zygotes import
it too.
"""
