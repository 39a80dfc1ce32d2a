"""How long the sandbox takes for one execution, beside an interpreter started for it: times, rates, memory.

    python bench/sandbox_latency.py --json [--quick]

Everything takes turns in one process; agentmath.sandbox.latency says how, and the field "meanings" what each row is.
`agentmath sandbox bench` measures the same.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from common import emit, record

from agentmath.sandbox.figures import lines
from agentmath.sandbox.latency import FULL, QUICK, measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer executions: seconds instead of minutes")
    arguments = parser.parse_args()
    measured = asyncio.run(measure(QUICK if arguments.quick else FULL))
    emit(record("sandbox_latency", vars(arguments), measured), as_json=arguments.json, lines=lines(measured))


if __name__ == "__main__":
    main()
