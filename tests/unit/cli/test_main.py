"""The command line: what reaches a command, what a mistake says, and how the process ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agentmath.cli
from agentmath.cli.main import main, mark_bare_resume
from agentmath.config.load import dump_recipe, load_recipe
from agentmath.config.recipe import Recipe
from agentmath.core.errors import CheckpointError, Interrupted

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Stands in for the commands that train and measure; records what reached them."""
    found: Calls = []
    for name in ("rl", "sft", "evaluate"):
        stand_in(monkeypatch, name, lambda *given, name=name: found.append((name, *given)))
    return found


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, run: Callable[..., None]) -> None:
    module = ModuleType(f"agentmath.cli.{name}")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(agentmath.cli, name, module, raising=False)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(caught.value.code or 0)


def run_folder(folder: Path, *overrides: str) -> Path:
    recipe = load_recipe("quickstart", [f"--run.output_dir={folder}", *overrides])
    path = folder / f"{recipe.run.name}-{recipe.run.seed}"
    path.mkdir(parents=True)
    (path / "recipe.toml").write_text(dump_recipe(recipe))
    return path


@pytest.mark.parametrize("name", ["rl", "sft"])
def test_recipe_and_overrides_reach_the_command_in_any_order(calls: Calls, name: str) -> None:
    assert exit_code(name, "--run.seed", "3", "quickstart", "--run.name=x", "--output-dir", "out") == 0
    expected = load_recipe("quickstart", ["--run.seed=3", "--run.name=x", "--run.output_dir=out"])
    assert calls == [(name, expected, None)]


def test_eval_gets_checkpoint_and_form(calls: Calls, tmp_path: Path) -> None:
    assert exit_code("eval", "quickstart", "--checkpoint", str(tmp_path), "--json", "--evaluation.num_tasks=5") == 0
    assert calls == [("evaluate", load_recipe("quickstart", ["--evaluation.num_tasks=5"]), tmp_path, True, None, None)]


def test_a_missing_checkpoint_is_refused(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("eval", "quickstart", "--checkpoint", "nowhere") == 2
    assert "--checkpoint nowhere does not exist" in capsys.readouterr().err
    assert calls == []


def test_a_dry_run_prints_a_recipe_that_loads_and_runs_nothing(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert exit_code("rl", "quickstart", "--run.seed=5", "--dry-run") == 0
    printed = capsys.readouterr().out
    recipe, _, table = printed.partition("\nmodel\n")
    (tmp_path / "printed.toml").write_text(recipe)
    assert load_recipe(str(tmp_path / "printed.toml")) == load_recipe("quickstart", ["--run.seed=5"])
    assert "trajectories per step" in table
    assert calls == []


def test_bare_resume_means_the_run_of_the_recipe(calls: Calls, tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    assert exit_code("rl", "quickstart", "--resume", "--output-dir", str(tmp_path)) == 0
    assert exit_code("rl", "quickstart", "--output-dir", str(tmp_path), "--resume") == 0
    assert [call[2] for call in calls] == [run, run]


def test_resume_of_a_folder_needs_no_recipe(calls: Calls, tmp_path: Path) -> None:
    run = run_folder(tmp_path, "--run.seed=4")
    assert exit_code("rl", "--resume", str(run), "--training.steps=7") == 0
    ((_, recipe, resumed),) = calls
    assert isinstance(recipe, Recipe)
    assert (recipe.run.seed, recipe.training.steps, resumed) == (4, 7, run)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rl", "quickstart", "--resume"], "there is no run to go on with"),
        (
            ["rl", "--resume", "quickstart"],
            "To go on with the own run of recipe 'quickstart', write: quickstart --resume",
        ),
        (["rl", "--resume", "no/such"], "--resume no/such"),
        (["rl"], "no recipe given"),
        (["rl", "--run.seed", "3"], "no recipe given"),
        (["rl", "a", "b"], "one recipe is expected, not 2: a b"),
        (["rl", "quikstart"], "did you mean quickstart"),
        (["rl", ""], "the recipe's name is empty"),
        (["eval", "quickstart", "--resume"], "this command has no option --resume"),
        (["rl", "quickstart", "--dryrun"], "unknown option --dryrun; did you mean --dry-run?"),
        (["rl", "quickstart", "--rollout.group_size", "1"], "rollout.group_size = 1"),
        (["rl", "quickstart", "--rollout.group_size", "-1"], "rollout.group_size = -1"),
        (["rl", "quickstart", "--output-dir", "a", "--run.output_dir=b"], "--run.output_dir is given twice"),
        (["plan", "quickstart", "--model.path=/dev/null"], "is a file but no .gguf"),
        (["view", "no/such"], "no/such"),
    ],
)
def test_a_users_mistake_is_one_message_on_stderr_and_exit_code_2(
    calls: Calls,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(*arguments) == 2
    out, err = capsys.readouterr()
    (said,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert sentence in err.partition("error: ")[2]
    assert said
    assert "Traceback" not in err
    assert out == ""
    assert calls == []


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["view"], ["view", "a", "b"], ["doctor", "--nonsense"], ["rl", "x", "--output-dir"]]
)
def test_a_wrong_use_is_exit_code_2(arguments: list[str]) -> None:
    assert exit_code(*arguments) == 2


def test_warnings_go_to_stderr_and_the_command_runs(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("rl", "quickstart", "--rollout.max_segments=2") == 0
    assert capsys.readouterr().err.startswith("warning: rollout.max_segments has no effect")
    assert len(calls) == 1


def test_an_error_of_a_room_ends_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> None:
        raise CheckpointError("the disk is full")

    stand_in(monkeypatch, "rl", run)
    assert exit_code("rl", "quickstart") == 8
    assert capsys.readouterr().err == "error: the disk is full\n"


def test_a_traceback_is_shown_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise CheckpointError("the disk is full")

    stand_in(monkeypatch, "rl", run)
    monkeypatch.setenv("AGENTMATH_TRACEBACK", "1")
    with pytest.raises(CheckpointError):
        main(["rl", "quickstart"])


def test_a_full_disk_is_said_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/x")

    stand_in(monkeypatch, "rl", run)
    assert exit_code("rl", "quickstart") == 1
    assert "error: nothing more can be written" in capsys.readouterr().err


def test_what_the_machine_refuses_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "runs/x")

    stand_in(monkeypatch, "rl", run)
    assert exit_code("rl", "quickstart") == 1
    assert capsys.readouterr().err.startswith("error: runs/x cannot be used: Permission denied; check")


def test_a_folder_name_that_is_too_long_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("rl", "quickstart", "--resume", "x" * 300) == 1
    assert "File name too long" in capsys.readouterr().err


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise ZeroDivisionError

    stand_in(monkeypatch, "rl", run)
    with pytest.raises(ZeroDivisionError):
        main(["rl", "quickstart"])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted("stopped at step 3")])
def test_ctrl_c_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    def run(*_: object) -> None:
        raise error

    stand_in(monkeypatch, "rl", run)
    assert exit_code("rl", "quickstart") == 130
    assert capsys.readouterr().err.startswith("stopped")


def test_a_real_interrupt_ends_the_process_with_130(tmp_path: Path) -> None:
    pipe = tmp_path / "recipe.toml"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", "from agentmath.cli.main import main; main()", "plan", str(pipe)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    writer = os.open(pipe, os.O_WRONLY)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=60)[1]
    os.close(writer)
    assert process.returncode == 130


def test_help_of_every_command_names_recipe_and_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("rl", "sft", "eval", "plan"):
        assert exit_code(name, "--help") == 0
        assert "RECIPE [--section.key VALUE]" in capsys.readouterr().out


def test_recipes_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("recipes") == 0
    assert "quickstart" in capsys.readouterr().out
    assert exit_code("recipes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["quickstart"]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out.startswith("agentmath ")


@pytest.mark.parametrize(
    ("given", "marked"),
    [
        (["rl", "x", "--resume"], ["rl", "x", "--resume="]),
        (["rl", "x", "--resume", "--run.seed", "3"], ["rl", "x", "--resume=", "--run.seed", "3"]),
        (["rl", "--resume", "runs/a"], ["rl", "--resume", "runs/a"]),
        (["rl", "--resume=runs/a"], ["rl", "--resume=runs/a"]),
        ([], []),
    ],
)
def test_a_resume_without_folder_is_told_from_one_with(given: list[str], marked: list[str]) -> None:
    assert mark_bare_resume(given) == marked
