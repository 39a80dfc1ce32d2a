"""All attacks."""

from __future__ import annotations

import attacks_on_files
import attacks_on_kernel
import attacks_on_limits
import attacks_on_neighbours
import attacks_on_output
import attacks_on_processes
import attacks_on_reports
from attack import Attack

ATTACKS: list[Attack] = [
    *attacks_on_files.ATTACKS,
    *attacks_on_processes.ATTACKS,
    *attacks_on_kernel.ATTACKS,
    *attacks_on_limits.ATTACKS,
    *attacks_on_output.ATTACKS,
    *attacks_on_reports.ATTACKS,
    *attacks_on_neighbours.ATTACKS,
]
OF_THE_LIST = [attack for attack in ATTACKS if attack.number]
OF_OUR_OWN = [attack for attack in ATTACKS if not attack.number]
