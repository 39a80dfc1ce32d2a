from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentmath.core.errors import CheckpointError  # noqa: E402
from agentmath.training import checkpoint  # noqa: E402
from agentmath.training.checkpoint import Parts, latest, load, save  # noqa: E402

TINY_POLICY = Path(__file__).parents[2] / "fixtures" / "tiny_policy.py"
FILES = ["model.safetensors", "optimizer.pt", "state.json", "parked.bin", "recipe.toml", "manifest.json"]


def parts(value: float = 1.0, size: int = 50) -> Parts:
    w = torch.full((size,), value)
    return Parts(
        model={"w": w, "tied": w, "b": torch.arange(3, dtype=torch.bfloat16)},
        optimizer={
            "names": ["w"],
            "parts": {"adamw": {"state": {0: {"step": torch.tensor(4.0)}}, "betas": (0.9, 0.95)}},
        },
        state={"step": value, "consumed": [1, 2, 5], "note": "\u00e9\u4e2d"},
        parked=bytes(range(256)),
        recipe="[run]\nseed = 3\n",
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}


def value_of(path: Path) -> float:
    """The value all parts of a checkpoint agree on."""
    step, got = load(path)
    value = got.state["step"]
    assert bool((got.model["w"] == value).all())
    assert step == int(value)
    return value


def test_everything_comes_back(tmp_path: Path) -> None:
    path = save(tmp_path / "deep" / "er", 7, parts(), keep=2)
    assert sorted(p.name for p in path.iterdir()) == sorted(FILES)
    step, got = load(path)
    given = parts()
    assert step == 7
    assert set(got.model) == {"w", "tied", "b"}
    assert all(torch.equal(got.model[n], t) and got.model[n].dtype == t.dtype for n, t in given.model.items())
    assert got.optimizer["parts"]["adamw"]["betas"] == (0.9, 0.95)
    assert torch.equal(got.optimizer["parts"]["adamw"]["state"][0]["step"], torch.tensor(4.0))
    assert (got.state, got.parked, got.recipe) == (given.state, given.parked, given.recipe)


def test_tied_weights_are_stored_once_and_views_are_no_trap(tmp_path: Path) -> None:
    big = torch.arange(100_000.0).reshape(1000, 100)
    model = {"big": big, "tied": big, "rows": big[10:20], "columns": big[:, :3], "empty": torch.zeros(0)}
    path = save(tmp_path, 1, Parts(model=model), keep=1)
    assert (path / "model.safetensors").stat().st_size < 450_000
    _, got = load(path)
    assert all(torch.equal(got.model[n], t) for n, t in model.items())


def test_latest_is_the_newest_step_and_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    assert latest(tmp_path / "absent") is None
    assert latest(tmp_path) is None
    for step in (2, 10, 9):
        save(tmp_path, step, parts(step), keep=9)
    (tmp_path / "step-99999999x").mkdir()
    (tmp_path / "step-00000011").write_text("a file, not a folder")
    newest = latest(tmp_path)
    assert newest is not None
    assert value_of(newest) == 10


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_last_ones_are_kept(tmp_path: Path, keep: int) -> None:
    for step in range(5):
        save(tmp_path, step, parts(step), keep=keep)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"step-{s:08d}" for s in range(5 - keep, 5)]


def test_saving_a_step_again_never_writes_over_it(tmp_path: Path) -> None:
    first = save(tmp_path, 3, parts(3.0), keep=5)
    second = save(tmp_path, 3, Parts(model={"w": torch.zeros(1)}), keep=5)
    third = save(tmp_path, 3, Parts(model={"w": torch.zeros(2)}), keep=5)
    assert [p.name for p in (first, second, third)] == ["step-00000003", "step-00000003-1", "step-00000003-2"]
    assert latest(tmp_path) == third
    assert value_of(first) == 3.0
    save(tmp_path, 4, parts(4), keep=1)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000004"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["cut", "empty", "gone", "flipped"])
def test_a_damaged_checkpoint_is_never_taken(tmp_path: Path, name: str, harm: str) -> None:
    save(tmp_path, 1, parts(1), keep=5)
    bad = save(tmp_path, 2, parts(2), keep=5)
    content = (bad / name).read_bytes()
    if harm == "gone":
        (bad / name).unlink()
    elif harm == "flipped":
        middle = len(content) // 2
        (bad / name).write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    else:
        (bad / name).write_bytes(content[:-1] if harm == "cut" else b"")
    # One changed bit in the manifest may fall into white space or a name nobody reads.
    if not (name == "manifest.json" and harm == "flipped"):
        assert latest(tmp_path) == tmp_path / "step-00000001"
        with pytest.raises(CheckpointError, match="not a whole checkpoint"):
            load(bad)


def test_a_damaged_checkpoint_is_named_and_a_run_with_none_left_does_not_begin_anew(tmp_path: Path) -> None:
    good, bad = save(tmp_path, 1, parts(1), keep=5), save(tmp_path, 2, parts(2), keep=5)
    num_bytes = (bad / "state.json").stat().st_size
    (bad / "state.json").write_text("{}")
    said: list[str] = []
    assert latest(tmp_path, said.append) == good
    assert said == [f"passed over, as it is damaged: {bad} (state.json has 2 bytes instead of {num_bytes})"]
    (good / "parked.bin").unlink()
    with pytest.raises(CheckpointError, match=f"no checkpoint in {tmp_path} is whole: .*step-00000002 .*step-00000001"):
        latest(tmp_path)


def test_a_later_damaged_checkpoint_does_not_push_out_the_new_one(tmp_path: Path) -> None:
    save(tmp_path, 1, parts(1), keep=1)
    bad = save(tmp_path, 30, parts(30), keep=2)
    (bad / "model.safetensors").unlink()
    new = save(tmp_path, 2, parts(2), keep=1)
    assert list(tmp_path.iterdir()) == [new]


@pytest.mark.parametrize("at", range(len(FILES)))
def test_a_full_disk_leaves_the_last_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    save(tmp_path, 1, parts(1), keep=1)
    synced = 0
    original = checkpoint._sync_file

    def fill(path: Path) -> None:
        nonlocal synced
        if synced == at:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        synced += 1
        original(path)

    monkeypatch.setattr(checkpoint, "_sync_file", fill)
    with pytest.raises(CheckpointError, match=r"step 2 .* disk is full. About \d+ bytes are needed, \d+ were free"):
        save(tmp_path, 2, parts(2), keep=1)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]
    assert value_of(tmp_path / "step-00000001") == 1
    monkeypatch.undo()
    assert value_of(save(tmp_path, 2, parts(2), keep=1)) == 2


def test_a_disk_that_is_really_full_leaves_the_last_good_one(tmp_path: Path) -> None:
    program = """
        import subprocess, sys, torch
        from pathlib import Path
        from agentmath.core.errors import CheckpointError
        from agentmath.training.checkpoint import Parts, latest, save
        folder = Path(sys.argv[1])
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
        good = save(folder, 1, Parts(model={"w": torch.ones(9)}), keep=1)
        big, small = torch.ones(30000), torch.ones(9)
        for more in ({"optimizer": {"m": big}}, {"parked": bytes(10**5)}, {"state": {"s": "x" * 10**5}}, {}):
            parts = Parts(model={"w": small if more else big}, **more)
            try:
                save(folder, 2, parts, keep=1)
                raise SystemExit("it fitted")
            except CheckpointError as error:
                assert "the disk is full" in str(error), error
            assert list(folder.iterdir()) == [good] and latest(folder) == good
    """
    try:
        allowed = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, timeout=20).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("this machine does not let a user make a small file system of their own")
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr


def save_forever(folder: Path, write: int) -> None:
    found = latest(folder)
    step = 0 if found is None else load(found)[0] + 1
    while True:
        w = torch.full((200_000,), float(step))
        save(folder, step, Parts(model={"w": w}, optimizer={"m": w}, state={"step": step}), keep=2)
        os.write(write, b"%d\n" % step)
        step += 1


def test_kill_9_while_saving_leaves_a_whole_checkpoint_of_one_moment(tmp_path: Path, tiny: Any) -> None:
    rng = np.random.default_rng(5)
    reached = -1
    for _ in range(12):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                save_forever(tmp_path, write)
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read) as lines:
            first = int(lines.readline())
            assert first > reached
            time.sleep(float(rng.uniform(0.0, 0.05)))
            os.kill(child, signal.SIGKILL)
            printed = [first, *(int(line) for line in lines)]
        os.waitpid(child, 0)
        found = latest(tmp_path)
        assert found is not None
        reached = int(value_of(found))
        # What was reported as saved is there; one more may be, killed between its rename and its report.
        assert reached - printed[-1] in (0, 1)
    save(tmp_path, reached + 1, parts(reached + 1), keep=1)
    assert [p.name for p in tmp_path.iterdir()] == [f"step-{reached + 1:08d}"]


@pytest.mark.parametrize(("optimizer", "dtype"), [("muon", "float32"), ("adamw", "bfloat16")])
def test_six_steps_equal_three_and_three_in_another_process_bit_for_bit(
    tmp_path: Path, tiny: Any, optimizer: str, dtype: str
) -> None:
    tiny.main(str(tmp_path / "whole"), "0", "6", "2", dtype, optimizer)
    tiny.main(str(tmp_path / "halves"), "0", "3", "2", dtype, optimizer)
    done = subprocess.run(
        [sys.executable, str(TINY_POLICY), str(tmp_path / "halves"), "3", "6", "2", dtype, optimizer],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    found = [latest(tmp_path / name) for name in ("whole", "halves")]
    (step_a, a), (step_b, b) = (load(path) for path in found if path is not None)
    assert step_a == step_b == 6
    assert all(torch.equal(a.model[n], b.model[n]) for n in a.model)
    flat_a, flat_b = (leaves(p.optimizer) for p in (a, b))
    assert len(flat_a) == len(flat_b) > 5
    for x, y in zip(flat_a, flat_b, strict=True):
        assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for v in value.values() for x in leaves(v)]
    if isinstance(value, list | tuple):
        return [x for v in value for x in leaves(v)]
    return [value]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"optimizer": {"lr": np.float64(1)}}, r"optimizer\['lr'\] is a numpy.float64"),
        ({"optimizer": {"a": [{"x": object()}]}}, r"optimizer\['a'\]\[0\]\['x'\] is a builtins.object"),
        ({"state": {"x": {1, 2}}}, "set is not JSON serializable"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, bad: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        save(tmp_path, 1, Parts(model={"w": torch.ones(1)}, **bad), keep=1)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"step 1 could not be written to .*file/here"):
        save(tmp_path / "file" / "here", 1, parts(), keep=1)


def test_an_optimizer_file_with_code_in_it_is_not_run(tmp_path: Path) -> None:
    path = save(tmp_path, 1, parts(), keep=1)
    torch.save({"x": Path("/")}, path / "optimizer.pt")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["optimizer.pt"] = {
        "bytes": (path / "optimizer.pt").stat().st_size,
        "sha256": checkpoint._digest(path / "optimizer.pt"),
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(path)
