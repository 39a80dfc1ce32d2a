"""agentmath eval by the command line: killed and gone on, on a run, and against served models."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmath.evaluation.store import JOURNAL
from agentmath.rollout.recorder import read_trajectories
from faulty_server import FaultyServer, serving

RECIPE = Path(__file__).parent.parent / "fixtures" / "tiny.toml"
Start = Callable[..., subprocess.Popen[str]]
Finish = Callable[[subprocess.Popen[str]], str]
BLOCKS = ("--evaluation.num_samples=24", "--evaluation.block_samples=8", "--evaluation.modes=['r_only', 'r_code']")
CLOCKS = ("seconds", "seconds_per_problem", "seconds_per_sample", "tool_seconds", "reproduce", "recipe")


def results_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Every results.json below folder, without what depends on clocks and folders."""
    return {path.parent.name: without_clocks(json.loads(path.read_text())) for path in folder.rglob("results.json")}


def without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_clocks(v) for key, v in value.items() if key not in CLOCKS}
    return value


def texts(folder: Path) -> dict[tuple[str, int, int], tuple[int, ...]]:
    """Tokens of every sample; two of the same name would be one too few."""
    rows = [(p.parent.name, row) for p in folder.rglob("samples.parquet") for row in read_trajectories(p)]
    found = {(name, r["ordinal"], r["sample_index"]): tuple(r["ids"].tolist()) for name, r in rows}
    assert len(found) == len(rows), "a sample was drawn twice"
    return found


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained tiny model, in its run."""
    folder = tmp_path_factory.mktemp("evaluated")
    command = [sys.executable, "-m", "agentmath", "rl", str(RECIPE), "--output-dir", str(folder), "--training.steps=1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "tiny-0"


def test_a_run_is_measured_by_its_folder_and_its_results_lie_in_it(run_dir: Path, start: Start, finish: Finish) -> None:
    printed = finish(start("eval", run_dir, "--evaluation.num_samples=2"))
    assert re.search(r"eval  arithmetic \(r_code\): accuracy 0\.\d+ \[0\.\d+, \d\.\d+\] on 8 held-out tasks", printed)
    folders = [p.parent for p in (run_dir / "evaluation").rglob("results.json")]
    assert len(folders) == 1 and folders[0].name.startswith("arithmetic.r_code.")
    assert {"plan.json", "recipe.toml", "samples.parquet", JOURNAL} <= {p.name for p in folders[0].iterdir()}
    found = json.loads((folders[0] / "results.json").read_text())
    assert found["model"]["kind"] == "weights" and len(found["problems"]) == 8
    assert {"avg@2", "pass@1", "pass@2", "maj@2"} == found["estimates"].keys()
    again = finish(start("eval", folders[0] / "recipe.toml", "--output-dir", run_dir.parent / "again", "--json"))
    assert json.loads(again)["arithmetic"]["estimates"] == found["estimates"], "the stored recipe measures the same"


def test_an_unfinished_run_is_measured_at_its_newest_checkpoint(run_dir: Path, start: Start, finish: Finish) -> None:
    model, aside = run_dir / "model", run_dir / "aside"
    whole = json.loads(finish(start("eval", run_dir, "--json", "--evaluation.num_samples=3")))["arithmetic"]
    model.rename(aside)
    try:
        part = json.loads(finish(start("eval", run_dir, "--json", "--evaluation.num_samples=3")))["arithmetic"]
    finally:
        aside.rename(model)
    assert (whole["model"]["kind"], part["model"]["kind"]) == ("weights", "checkpoint")
    assert whole["estimates"] == part["estimates"]


def kill_after(process: subprocess.Popen[str], folder: Path, num_bytes: int) -> None:
    """kill -9 as soon as journals below folder hold more than num_bytes."""
    deadline = time.monotonic() + 120
    while sum(p.stat().st_size for p in folder.rglob(JOURNAL)) <= num_bytes:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the evaluation made no progress"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_an_evaluation_killed_three_times_ends_like_one_that_was_not(
    run_dir: Path, tmp_path: Path, start: Start, finish: Finish
) -> None:
    words = ("eval", RECIPE, "--checkpoint", run_dir / "model", *BLOCKS)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    # The checkpoint lies in a run, so results would go there: a copy outside of it keeps the two apart.
    model = tmp_path / "model"
    subprocess.run(["cp", "-r", run_dir / "model", model], check=True)
    words = ("eval", RECIPE, "--checkpoint", model, *BLOCKS)
    finish(start(*words, "--output-dir", whole))
    size = sum(p.stat().st_size for p in whole.rglob(JOURNAL))
    held = 0
    for share in (0.0, 0.3, 0.7):
        kill_after(start(*words, "--output-dir", killed), killed, max(int(share * size), held))
        assert not [*killed.rglob("results.json")] or share > 0.5
        held = sum(p.stat().st_size for p in killed.rglob(JOURNAL))
    finish(start(*words, "--output-dir", killed))
    assert results_in(whole) == results_in(killed) != {}
    assert texts(whole) == texts(killed)
    assert len(texts(whole)) == 2 * 8 * 24, "none is missing"


def solver(body: dict[str, Any]) -> Iterator[str]:
    """Does as a good model: writes a program for the sum, then boxes what came back."""
    said = [m["content"] for m in body["messages"]]
    if "<interpreter>" in said[-1]:
        output = said[-1].removeprefix("<interpreter>").removesuffix("</interpreter>").strip()
        return iter(["It is ", f"\\boxed{{{output}}}."])
    return iter(["<code>", f"print({program_of(said[-1])})", "</code>", " and then something that nobody reads"])


def program_of(question: str) -> str:
    numbers = re.findall(r"\d+", question)
    return " + ".join(numbers) if numbers else "0"


def questions(folder: Path, count: int) -> Path:
    path = folder / "sums.jsonl"
    rows = [
        {"id": f"q{i}", "question": f"What is {i} plus {i * i}?", "answer": str(i + i * i), "level": i % 3}
        for i in range(count)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


ENDPOINT = (
    "--endpoint.model=m",
    "--endpoint.backoff_seconds=0.01",
    "--endpoint.idle_seconds=2",
    "--sandbox.num_workers=1",
)


def test_a_served_model_is_measured_through_a_bad_network_and_no_fault_is_a_wrong_answer(
    tmp_path: Path, start: Start, finish: Finish
) -> None:
    faults = ["429", "500", "drop", "refuse", "silence", "garbage", "error", "503", "", "drop", "429", "whole"]
    server = FaultyServer(solver, faults)
    with serving(server) as url:
        words = ("eval", url, *ENDPOINT, "--data.gsm8k.path", questions(tmp_path, 12), "--output-dir", tmp_path / "out")
        printed = finish(start(*words, "--export", tmp_path / "export"))
        asked = len(server.bodies)
        again = finish(start(*words))
    assert len(server.bodies) == asked, "nothing is sampled twice"
    (path,) = (tmp_path / "out").rglob("results.json")
    found = json.loads(path.read_text())
    assert (found["num_graded"], found["num_failed"], found["accuracy"]) == (12, 0, 1.0)
    assert found["tool_use"] == 1.0 and found["requests"]["requests"] == 24
    kinds = {"429": 2, "500": 1, "503": 1, "broken_stream": 4, "connection": 1, "silence": 1}
    assert all(found["requests"].get(f"retried/{kind}", 0) >= count for kind, count in kinds.items())
    assert set(found["by"]["level"]) == {"0", "1", "2"}
    assert "accuracy 1.000" in printed and "accuracy 1.000" in again
    assert "pieces of text" in found["model"]["token_ids"]
    check_export(tmp_path / "export", url)


def check_export(folder: Path, url: str) -> None:
    (path,) = folder.glob("results_*.json")
    figures = json.loads(path.read_text())
    assert figures["results"]["gsm8k.r_code"]["exact_match,none"] == 1.0
    assert figures["n-samples"]["gsm8k.r_code"] == {"original": 12, "effective": 12}
    assert figures["agentmath"]["reproduce"] == "agentmath eval recipe.toml"
    assert url in (folder / "recipe.toml").read_text() and "python" in figures["agentmath"]["packages"]
    (samples,) = folder.glob("samples_gsm8k.r_code_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(12))
    assert lines[3]["target"] == "12" and lines[3]["filtered_resps"] == ["12"] and lines[3]["exact_match"] == 1.0
    assert "<interpreter>12" in lines[3]["resps"][0][0]


@pytest.mark.slow
def test_a_killed_evaluation_of_a_served_model_asks_for_no_kept_sample_again(
    tmp_path: Path, start: Start, finish: Finish
) -> None:
    server = FaultyServer(solver)
    with serving(server) as url:
        words = (
            "eval",
            url,
            *ENDPOINT,
            "--data.gsm8k.path",
            questions(tmp_path, 200),
            "--output-dir",
            tmp_path / "out",
        )
        held = 0
        for _ in range(3):
            kill_after(start(*words, "--endpoint.max_concurrent=2"), tmp_path, held + 20_000)
            held = sum(p.stat().st_size for p in tmp_path.rglob(JOURNAL))
        finish(start(*words, "--endpoint.max_concurrent=2"))
    (path,) = (tmp_path / "out").rglob("results.json")
    found = json.loads(path.read_text())
    assert (found["num_graded"], found["num_failed"], found["accuracy"]) == (200, 0, 1.0)
    assert len(texts(tmp_path)) == 200
    rows = [row for p in tmp_path.rglob("samples.parquet") for row in read_trajectories(p)]
    assert all(row["turn_texts"][-1] == f"It is \\boxed{{{row['gold']}}}." for row in rows), "pieces were mixed up"
    first = [b["messages"][-1]["content"] for b in server.bodies if "<interpreter>" not in b["messages"][-1]["content"]]
    # Each of the three kills can lose what was in work at the time: two samples.
    assert len(first) <= 200 + 3 * 2


def test_a_dead_server_is_said_and_what_was_drawn_is_kept(tmp_path: Path, start: Start) -> None:
    server = FaultyServer(solver, [""] * 6 + ["400"] * 100)
    with serving(server) as url:
        words = ("eval", url, *ENDPOINT, "--endpoint.max_concurrent=1", "--output-dir", tmp_path / "out")
        process = start(*words, "--data.gsm8k.path", questions(tmp_path, 40))
        printed, _ = process.communicate(timeout=120)
    assert process.returncode == 5, printed
    assert "8 samples one after another were lost" in printed and "made to fail with 400" in printed
    assert "Traceback" not in printed
    assert len(server.bodies) == 6 + 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:9/v1",), "endpoint.model is empty"),
        (("http://key@127.0.0.1:9/v1", "--endpoint.model=m"), "keys belong into the environment"),
        ((), "nothing to measure is named"),
        (("benchmarks",), "nothing to measure: no data source"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(words: tuple[str, ...], said: str, start: Start) -> None:
    process = start("eval", *words)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 2 and said in printed and "Traceback" not in printed
