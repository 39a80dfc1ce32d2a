from __future__ import annotations

import pytest

from agentmath.core.errors import SandboxError
from agentmath.sandbox import layers


def table(*missing: str) -> tuple[layers.Layer, ...]:
    return layers.report(
        (name, name not in missing, "forbidden" if name in missing else "") for name in layers.LEAVES_OPEN
    )


def test_the_report_names_what_a_missing_layer_leaves_open() -> None:
    row = {layer.name: layer for layer in table("landlock")}["landlock"]
    assert (row.in_force, row.why_not) == (False, "forbidden")
    assert "file" in row.leaves_open


@pytest.mark.parametrize("name", ["no_new_privs", "rlimits", "seccomp", "landlock"])
def test_strict_refuses_without_a_required_layer_and_names_it(name: str) -> None:
    with pytest.raises(SandboxError, match=f"{name} .forbidden. leaves open"):
        layers.check("strict", table(name), is_root=False)


def test_strict_as_root_needs_root_to_be_given_up_one_way_or_the_other() -> None:
    layers.check("strict", table("uid_drop"), is_root=True)
    layers.check("strict", table("user_namespace"), is_root=True)
    with pytest.raises(SandboxError, match="user_namespace"):
        layers.check("strict", table("uid_drop", "user_namespace"), is_root=True)


def test_strict_as_an_ordinary_user_has_no_root_to_give_up() -> None:
    layers.check("strict", table("uid_drop", "user_namespace", "net_namespace", "mount_namespace"), is_root=False)


def test_best_and_trusted_only_report() -> None:
    for mode in ("best", "trusted"):
        layers.check(mode, table(*layers.LEAVES_OPEN), is_root=True)
