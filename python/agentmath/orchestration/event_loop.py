"""The event loop that a run lives on: uvloop's where it is installed, as that wakes tasks up faster, else asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What asyncio.Runner is to make its loop with; None for its own. Numbers do not depend on which it is."""
    if find_spec("uvloop") is None:
        return None
    return import_module("uvloop").new_event_loop
