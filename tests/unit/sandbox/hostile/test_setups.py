"""All attacks again in other set-ups: without root, with root given up, and with each single layer forced off.

Where a layer is missing an attack may succeed. What must hold even then: the status is true, the sandbox's processes
live on, the next snippet is right, and nothing is left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentmath.sandbox.layers import LEAVES_OPEN
from agentmath.sandbox.local import LocalSandbox

ORDINARY_UID = 65534
_SCRIPT = Path(__file__).with_name("one_setup.py")
_SECONDS = 160


def attack_all(*options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0 and "a mount namespace" in done.stderr:
        pytest.skip(f"the interpreter cannot be shown to another user: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def judge(outcome: dict[str, Any]) -> None:
    wrong = {name: outcome[name] for name in ("failures", "touched", "keepers_lost", "leftovers") if outcome[name]}
    assert wrong == {}, json.dumps(wrong, indent=1)
    assert outcome["num_tried"] > 400
    threads = outcome["threads"]
    assert threads["together"] == [threads["alone"]] * 3, "snippets share a limit on threads"


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")


def test_an_ordinary_user_is_as_safe() -> None:
    needs_root()
    outcome = attack_all("--reachable", "--user", str(ORDINARY_UID))
    assert not {"uid_drop", "cgroup"} & set(outcome["in_force"])
    judge(outcome)


def test_root_that_gives_up_its_uid_is_as_safe() -> None:
    needs_root()
    judge(attack_all("--reachable"))


def test_under_dockers_default_profile_the_truth_is_still_told() -> None:
    needs_root()
    outcome = attack_all("--reachable", "--docker")
    assert set(outcome["in_force"]) == {"no_new_privs", "rlimits", "seccomp", "landlock", "uid_drop"}
    judge(outcome)


@pytest.mark.parametrize("layer", [layer for layer in LEAVES_OPEN if layer != "no_new_privs"])
def test_without_one_layer_the_truth_is_still_told(layer: str, sandbox: LocalSandbox) -> None:
    if layer not in {row.name for row in sandbox.report() if row.in_force}:
        pytest.skip(f"{layer} is not in force here anyway, so this would be the ordinary run")
    outcome = attack_all("--without", layer)
    assert layer not in outcome["in_force"]
    judge(outcome)
