from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agentmath.core.errors import DataError, TrainingError
from agentmath.core.types import (
    Group,
    Reward,
    Segment,
    SpanKind,
    StopReason,
    Task,
    Tokens,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)
from agentmath.rollout.recorder import ROWS_PER_GROUP, iterate_trajectories, read_trajectories, write_trajectories

TASK = Task(id="svamp-1", question="What is 17 * 3?", answer="51", source="svamp", difficulty=0.25)


def decode(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


def stretch(text: str, kind: SpanKind, version: int = 7) -> Tokens:
    ids = [ord(c) for c in text]
    if kind in (SpanKind.PROMPT, SpanKind.INTERPRETER):
        return Tokens.inserted(ids, kind)
    return Tokens(
        ids=np.array(ids, np.int32),
        logprobs=np.linspace(-2, -0.5, len(ids), dtype=np.float32),
        kinds=np.full(len(ids), kind, np.uint8),
        versions=np.full(len(ids), version, np.int32),
    )


def tool_turn(code: str = "print(17*3)", output: str = "51") -> Turn:
    parts = [stretch("<think>so</think>", SpanKind.THINK), stretch(f"<code>{code}</code>", SpanKind.CODE)]
    parts.append(stretch(f"<interpreter>{output}</interpreter>", SpanKind.INTERPRETER))
    return Turn(
        role="reasoning",
        agent="solver",
        tokens=Tokens.concatenate(parts),
        stop_reason=StopReason.STOP,
        call=ToolCall(tool="code", source=code),
        result=ToolResult(
            status=ToolStatus.OK, stdout=output + "\n", exit_code=0, cpu_seconds=0.25, layers=("seccomp",)
        ),
    )


def spoken(text: str, stop: StopReason = StopReason.ANSWER) -> Turn:
    return Turn(role="reasoning", agent="solver", tokens=stretch(text, SpanKind.ANSWER), stop_reason=stop)


def trajectory(turns: list[Turn], task: Task = TASK, sample_index: int = 0) -> Trajectory:
    return Trajectory(
        task=task,
        sample_index=sample_index,
        ordinal=5,
        prompt=stretch(task.question, SpanKind.PROMPT),
        turns=turns,
        segments=[Segment(first_turn=0, num_turns=len(turns), step=3, num_sampled_tokens=9, num_tool_calls=1)],
        stop_reason=turns[-1].stop_reason if turns else None,
        reward=Reward(total=1.11, parts={"accuracy": 1.0, "tool": 0.11}, extracted="51", rule="integer"),
        advantage=0.5,
    )


def written(path: Path, *trajectories: Trajectory) -> list[dict]:
    write_trajectories(path, [Group(task=TASK, ordinal=5, trajectories=list(trajectories))], 3, decode)
    return read_trajectories(path)


def test_a_row_holds_what_an_audit_needs(tmp_path: Path) -> None:
    [row] = written(tmp_path / "a.parquet", trajectory([tool_turn(), spoken("\\boxed{51}")]))
    assert (row["step"], row["ordinal"], row["sample_index"], row["task_id"]) == (3, 5, 0, "svamp-1")
    assert (row["question"], row["gold"], row["extracted"], row["rule"]) == ("What is 17 * 3?", "51", "51", "integer")
    assert row["reward"] == 1.11
    assert row["reward_parts"] == {"accuracy": 1.0, "tool": 0.11}
    assert (row["advantage"], row["stop_reason"], row["difficulty"]) == (0.5, "answer", 0.25)
    assert (row["num_tool_calls"], row["num_tool_failures"]) == (1, 0)
    assert row["segments"][0]["step"] == 3
    call, answer = row["turns"]
    assert (call["tool"], call["source"], call["status"], call["stdout"]) == ("code", "print(17*3)", "ok", "51\n")
    assert (call["cpu_seconds"], call["exit_code"], call["signal"], call["layers"]) == (0.25, 0, None, ["seccomp"])
    assert call["text"] == "<think>so</think><code>print(17*3)</code>"
    assert call["output"] == "<interpreter>51</interpreter>"
    assert (answer["status"], answer["text"], answer["output"]) == (None, "\\boxed{51}", "")


def test_the_arrays_are_the_whole_trajectory_and_can_be_trained_on_again(tmp_path: Path) -> None:
    made = trajectory([tool_turn(), spoken("\\boxed{51}")])
    [row] = written(tmp_path / "a.parquet", made)
    for name in ("ids", "logprobs", "kinds", "versions"):
        wanted = getattr(made.tokens, name)
        assert row[name].dtype == wanted.dtype
        np.testing.assert_array_equal(row[name], wanted)
    assert row["num_context_tokens"] == len(made.tokens)
    assert row["num_sampled_tokens"] == made.num_sampled_tokens
    begins = [t["first_token"] for t in row["turns"]]
    assert begins == [len(made.prompt), len(made.prompt) + len(made.turns[0].tokens)]


def test_spans_cover_every_token_once_in_order(tmp_path: Path) -> None:
    made = trajectory([tool_turn(), spoken("\\boxed{51}")])
    [row] = written(tmp_path / "a.parquet", made)
    assert [(s["kind"], s["turn"]) for s in row["spans"]] == [
        ("prompt", -1),
        ("think", 0),
        ("code", 0),
        ("interpreter", 0),
        ("answer", 1),
    ]
    assert sum(s["num_tokens"] for s in row["spans"]) == len(made.tokens)
    assert "".join(s["text"] for s in row["spans"]) == decode(made.tokens.ids.tolist())


def test_texts_and_outputs_are_those_of_a_demonstration(tmp_path: Path) -> None:
    [row] = written(tmp_path / "a.parquet", trajectory([tool_turn(output="a\n<b>\n"), tool_turn(), spoken("done")]))
    said = "<think>so</think><code>print(17*3)</code>"
    assert row["turn_texts"] == [said, said, "done"]
    assert row["outputs"] == ["a\n<b>\n", "51"]


def test_a_turn_cut_by_a_segment_bound_is_one_text(tmp_path: Path) -> None:
    parts = [
        spoken("so we ", StopReason.SEGMENT),
        tool_turn(),
        spoken("the answer ", StopReason.SEGMENT),
        spoken("is 51"),
    ]
    [row] = written(tmp_path / "a.parquet", trajectory(parts))
    assert row["turn_texts"] == ["so we <think>so</think><code>print(17*3)</code>", "the answer is 51"]
    assert row["outputs"] == ["51"]


def test_a_trajectory_that_ends_behind_an_output_has_as_many_outputs_as_texts(tmp_path: Path) -> None:
    [row] = written(tmp_path / "a.parquet", trajectory([tool_turn()]))
    assert (len(row["turn_texts"]), len(row["outputs"])) == (1, 1)


def test_unfinished_and_failed_trajectories_are_written_too(tmp_path: Path) -> None:
    bare = Trajectory(task=TASK, sample_index=1, ordinal=5, prompt=Tokens.inserted([], SpanKind.PROMPT))
    failed = trajectory([])
    failed.stop_reason, failed.error, failed.reward, failed.advantage = StopReason.ERROR, "no worker", None, None
    first, second = written(tmp_path / "a.parquet", bare, failed)
    assert (first["stop_reason"], first["reward"], first["reward_parts"], first["turn_texts"]) == (None, None, {}, [])
    assert len(first["ids"]) == 0
    assert (second["stop_reason"], second["error"]) == ("error", "no worker")


def test_no_group_at_all_is_an_empty_file(tmp_path: Path) -> None:
    write_trajectories(tmp_path / "a.parquet", [], 1, decode)
    assert read_trajectories(tmp_path / "a.parquet") == []


def test_text_that_is_no_unicode_is_written_with_escapes(tmp_path: Path) -> None:
    task = Task(id="bad\ud800", question="\x00 \udcff \U0001f600", answer="\ud83d")
    made = trajectory([tool_turn(code="print('\ud800')", output="\udfff")], task=task)
    [row] = written(tmp_path / "a.parquet", made)
    assert row["task_id"] == "bad\\ud800"
    assert row["question"] == "\x00 \\udcff \U0001f600"
    assert row["turns"][0]["source"] == "print('\\ud800')"
    assert row["outputs"] == ["\\udfff"]


def test_the_names_of_isolation_layers_need_not_be_unicode(tmp_path: Path) -> None:
    result = ToolResult(status=ToolStatus.OK, layers=("a\udc80", "b"))
    turn = Turn(role="r", agent="a", tokens=stretch("x", SpanKind.CODE), stop_reason=StopReason.STOP, result=result)
    [row] = written(tmp_path / "a.parquet", trajectory([turn]))
    assert row["turns"][0]["layers"] == ["a\\udc80", "b"]


def test_many_trajectories_are_read_row_group_by_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    many = [trajectory([spoken(str(i))], sample_index=i) for i in range(ROWS_PER_GROUP + 3)]
    written(path, *many)
    assert pq.ParquetFile(path).num_row_groups == 2
    assert [r["sample_index"] for r in iterate_trajectories(path)] == list(range(ROWS_PER_GROUP + 3))


def test_equal_runs_of_tokens_are_decoded_once(tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def counting(ids: Sequence[int]) -> str:
        seen.append(tuple(ids))
        return decode(ids)

    made = [trajectory([spoken("\\boxed{51}")], sample_index=i) for i in range(8)]
    write_trajectories(tmp_path / "a.parquet", [Group(task=TASK, ordinal=5, trajectories=made)], 3, counting)
    assert len(seen) == 2


def test_a_file_that_cannot_be_written_is_one_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="--resume"):
        write_trajectories(tmp_path / "absent" / "a.parquet", [], 1, decode)
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(TrainingError, match="cannot write"):
        write_trajectories(tmp_path / "a.parquet", [], 1, decode)
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_a_foreign_or_damaged_file_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": [1]}), foreign)
    with pytest.raises(DataError, match="no trajectory file"):
        read_trajectories(foreign)
    whole = tmp_path / "whole.parquet"
    written(whole, trajectory([spoken("x")]))
    whole.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot read"):
        read_trajectories(whole)
    with pytest.raises(DataError, match="cannot read"):
        read_trajectories(tmp_path / "absent.parquet")
