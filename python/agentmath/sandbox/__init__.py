"""Runs model-written Python in a process that can harm nothing but itself.

    in the trainer           local.py       the face: calls, sessions, retries
                             fleet.py       starts, chooses and replaces sandbox processes
                             link.py        one of them as the trainer sees it
                             layers.py      what each isolation layer is for; library.py: what snippets may read
    the sandbox process      boot.py        its entry point
                             supervisor.py  queue, sessions, answers
                             nursery.py     live children: time, output, ends (child.py: one of them)
                             verdict.py     kernel facts and a report -> a status
    its child, the zygote    zygote.py      forks hardened children; never sees code or output
                             isolation.py   enters the layers that this machine allows
    one process per snippet  runner.py      runs blocks of code
    or session
    between them             wire.py, reactor.py, capture.py

The trainer never forks: it starts an interpreter, which splits into supervisor and zygote before anything of value is
in its memory. This file imports nothing, because the sandbox process imports it too.
"""
