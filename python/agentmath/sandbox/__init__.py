"""Runs model-written Python in a process that can harm nothing but itself.

    local.py       the face: asyncio, sessions, retries          in the trainer
    link.py        one sandbox process as the trainer sees it    in the trainer
    layers.py      what each isolation layer is for              in the trainer
    boot.py        entry point of the sandbox process
    supervisor.py  queue, timers, verdicts, output               sandbox process
    zygote.py      forks hardened children                       its child; never sees code or output
    runner.py      runs code blocks                              one process per snippet or session

The trainer never forks: it starts an interpreter, which splits into supervisor and zygote before anything of value is
in its memory. This file imports nothing, because the sandbox process imports it too.
"""
