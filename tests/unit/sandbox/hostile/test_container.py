"""What the sandbox is inside a container under Docker's default profile, which container.py stands in for."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ORDINARY_UID = "65534"
KEPT = {"no_new_privs", "rlimits", "seccomp", "landlock"}
NAMESPACES = {f"{kind}_namespace" for kind in ("user", "pid", "net", "ipc", "uts", "mount")}
_SCRIPT = Path(__file__).with_name("container.py")


def inside(*options: str) -> dict[str, Any]:
    """What container.py says, after what must hold in every container."""
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("only root can drop capabilities, and the calls are listed for x86-64")
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode != 0 and "a mount namespace" in done.stderr:
        pytest.skip("no mount namespace can be had, in which a container could be played")
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["leftovers"] == {}
    assert set(told["layers"]) == set(told["in_force"]), "results and report differ"
    assert {name for name in told["why_not"] if name in NAMESPACES} == NAMESPACES
    assert all("unshare: Operation not permitted" in told["why_not"][name] for name in NAMESPACES)
    assert told["why_not"]["cgroup"]
    for name, statuses in {
        **{name: {"ok"} for name in ("prints", "computes", "writes")},
        **{name: {"exception"} for name in ("forks", "connects")},
        **{"grows": {"memory"}, "spins": {"cpu_timeout"}, "forbids": {"syscall_violation"}},
    }.items():
        assert told["statuses"][name] in statuses, name
    return told


def test_root_gives_up_its_uid_and_keeps_all_that_needs_no_namespace() -> None:
    told = inside()
    assert set(told["in_force"]) == KEPT | {"uid_drop"}
    assert (told["statuses"]["peeks"], told["statuses"]["spills"]) == ("exception", "exception")
    assert "Read-only file system" in told["why_not"]["cgroup"]
    assert told["strict"] == "", "what strict insists on is all there"


def test_an_ordinary_user_keeps_all_that_needs_no_namespace() -> None:
    told = inside("--user", ORDINARY_UID)
    assert set(told["in_force"]) == KEPT
    assert (told["statuses"]["peeks"], told["statuses"]["spills"]) == ("exception", "exception")
    assert told["strict"] == ""


def test_strict_refuses_a_root_that_cannot_be_given_up_and_says_what_to_do() -> None:
    told = inside("--drop-all")
    assert set(told["in_force"]) == KEPT
    assert "needs isolation layers that this machine does not give: uid_drop (" in told["strict"]
    assert "user_namespace (unshare: Operation not permitted" in told["strict"]
    assert told["strict"].endswith("Allow them, or set sandbox.mode = best to go on without.")


def test_a_profile_from_before_landlock_is_told_and_refused_by_strict() -> None:
    told = inside("--without-landlock")
    assert set(told["in_force"]) == KEPT - {"landlock"} | {"uid_drop"}
    assert "Operation not permitted" in told["why_not"]["landlock"]
    assert told["statuses"]["spills"] == "exception", "the file is another uid's"
    assert "landlock (" in told["strict"]
