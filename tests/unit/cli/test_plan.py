"""The plan's arithmetic, worked by hand."""

from __future__ import annotations

import json

import pytest

from agentmath.cli.plan import Row, plan, print_rows
from agentmath.config.load import load_recipe


def rows(*overrides: str) -> dict[tuple[str, str], Row]:
    return {(row.group, row.name): row for row in plan(load_recipe("quickstart", overrides))}


def test_a_step_of_16_tasks_and_8_samples_is_128_trajectories() -> None:
    found = rows("--training.steps=50", "--sft.steps=220")
    rl = "reinforcement learning"
    assert found[rl, "trajectories per step"].value == 128
    assert found[rl, "sampled tokens per step"].value == 128 * 64
    assert found[rl, "tokens per step"].value == 128 * 160
    assert found[rl, "mean tokens per step"].value == 64 * 160
    assert found[rl, "updates"].value == 50
    assert found[rl, "tasks in all"].value == 800
    assert found["supervised", "sequences"].value == 220 * 64
    assert found["evaluation", "tasks each time"].value == 200


@pytest.mark.parametrize(
    ("overrides", "passes"),
    [
        ([], 2),  # 102 trajectories of 160 tokens fit 16384
        (["--training.tokens_per_microbatch=20480"], 1),
        (["--training.tokens_per_microbatch=20479"], 2),
        (["--training.tokens_per_microbatch=1"], 128),
        (["--training.updates_per_step=4"], 4),
        (
            ["--training.updates_per_step=3", "--training.tokens_per_microbatch=3200"],
            9,
        ),  # 6 groups each, 20 trajectories a pass
    ],
)
def test_micro_batches_hold_whole_trajectories(overrides: list[str], passes: int) -> None:
    assert rows(*overrides)["reinforcement learning", "micro-batches per step"].value == passes


def test_memory_of_the_new_model_by_hand() -> None:
    found = rows("--training.steps=50", "--sft.steps=220")
    # 480 x 128 embeddings, shared with the head; a layer has 2 x 128 x 32 x (4 + 2) for attention, 3 x 128 x 384 for
    # the feed-forward and 2 x 128 for norms; one norm at the end
    parameters = 480 * 128 + 3 * (49_152 + 147_456 + 256) + 128
    assert found["model", "parameters"].value == parameters == 652_160
    assert found["memory", "weights"].value == 4 * parameters
    assert found["memory", "gradients"].value == 4 * parameters
    assert found["memory", "optimiser state"].value == 8 * parameters
    assert found["memory", "KV cache"].value == 2 * 3 * (2 * 32) * 4 * 128 * 160
    assert found["memory", "logits chunk"].value == 64 << 20


def test_a_kl_penalty_keeps_a_second_copy_of_the_weights() -> None:
    assert ("memory", "reference weights") not in rows()
    assert rows("--algorithm.kl=k3")["memory", "reference weights"].value == 4 * 652_160
    assert ("memory", "reference weights") not in rows("--algorithm.kl=k3", "--training.steps=0", "--sft.steps=10")


def test_engine_processes_have_weights_and_caches_of_their_own() -> None:
    alone, two = rows(), rows("--engine.replicas=2")
    assert ("memory", "engine weights") not in alone
    assert two["memory", "engine weights"].value == 2 * 4 * 652_160
    assert two["memory", "KV cache"].value == 2 * int(alone["memory", "KV cache"].value)


@pytest.mark.parametrize("kl", ["none", "k3"])
def test_the_sum_is_the_sum(kl: str) -> None:
    memory = [row for (group, _), row in rows(f"--algorithm.kl={kl}").items() if group == "memory"]
    assert memory[-1].name == "sum"
    assert memory[-1].value == sum(int(row.value) for row in memory[:-1])


def test_bfloat16_halves_weights_and_cache() -> None:
    wide, narrow = rows(), rows("--model.dtype=bfloat16")
    for name in ("weights", "KV cache"):
        assert wide["memory", name].value == 2 * int(narrow["memory", name].value)
    assert narrow["memory", "gradients"].value == (2 + 4) * 652_160
    assert narrow["memory", "optimiser state"].value == (4 + 8) * 652_160


def test_muon_keeps_less_than_adamw() -> None:
    adamw = rows("--sft_optimizer.name=adamw")["memory", "optimiser state"].value
    muon = rows("--training.steps=0")["memory", "optimiser state"].value
    assert muon == 4 * (652_160 + 480 * 128) < int(adamw)


def test_stages_that_are_skipped_say_so() -> None:
    found = rows("--sft.steps=0", "--training.steps=0")
    assert found["supervised", "updates"].value == 0
    assert found["reinforcement learning", "updates"].value == 0
    assert found["memory", "optimiser state"].value == 0


def test_a_model_that_is_not_here_leaves_memory_out() -> None:
    found = rows("--model.path=nobody/no-such-model")
    assert "not on this machine" in found["model", "weights"].note
    assert not any(group == "memory" for group, _ in found)


def test_refills_are_counted_as_a_bound() -> None:
    assert "up to 48 drawn" in rows("--rollout.max_refills=2")["reinforcement learning", "tasks per step"].note


def test_the_table_and_the_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(load_recipe("quickstart"))
    print_rows(found, as_json=True)
    assert [Row(**row) for row in json.loads(capsys.readouterr().out)] == found
    print_rows(found, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["parameters", "652,160", *found[1].note.split()] for line in lines)
    assert any("30.0 MiB" in line and "KV cache" in line for line in lines)
