"""Engine processes that are killed, hang, refuse or lie: real processes, a fake model."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_engine

torch = pytest.importorskip("torch")

from agentmath.core.errors import ConfigError, EngineError  # noqa: E402
from agentmath.core.types import Completion, Sampling, StopReason  # noqa: E402
from agentmath.engines import process as process_module  # noqa: E402
from agentmath.engines import replicas as replicas_module  # noqa: E402
from agentmath.engines.backend import LoadSpec  # noqa: E402
from agentmath.engines.parity import Expected  # noqa: E402
from agentmath.engines.process import Deadlines, EngineProcess  # noqa: E402
from agentmath.engines.replicas import ReplicaSettings, ReplicatedEngine  # noqa: E402
from agentmath.engines.routing import LeastLoaded  # noqa: E402
from agentmath.engines.spawn import Home  # noqa: E402

Opened = Callable[..., Any]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(coroutine, 90)

    return asyncio.run(bounded())


async def until(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in {seconds} s"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return status != "Z"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """What stands for the engine's Python."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_engine.__file__} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture(autouse=True)
def _quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas_module, "_BACKOFF_SECONDS", 0.02)


def spec(model: str, **values: Any) -> LoadSpec:
    numbers: dict[str, Any] = {"max_rows": 8, "max_context_tokens": 400, "max_prefill_tokens": 64, "num_threads": 1}
    return LoadSpec(**({"model": model, "dtype": "float32", "version": 0, "eos_ids": ()} | numbers | values))


@pytest.fixture
def opened(python: str, tmp_path: Path) -> Opened:
    @asynccontextmanager
    async def make(
        *models: str, deadlines: dict[str, float] | None = None, said: list[str] | None = None, **values: Any
    ) -> AsyncIterator[ReplicatedEngine]:
        limits: dict[str, float] = {"start": 30, "answer": 30, "stall": 30} | (deadlines or {})
        processes = [
            EngineProcess(
                number=n,
                kind="fake",
                spec=spec(model),
                home=Home.make(n, str(tmp_path)),
                python=python,
                deadlines=Deadlines(**limits),
            )
            for n, model in enumerate(models or ("normal",))
        ]
        numbers: dict[str, Any] = {"max_context_tokens": 400, "keeps_kv": False, "parity_tolerance": 0.1}
        numbers |= {"max_restarts": 3, "place_seconds": 30} | values
        settings = ReplicaSettings(**numbers)
        said = [] if said is None else said
        engine = ReplicatedEngine(processes, LeastLoaded(), settings, say=said.append)
        await engine.open()
        try:
            yield engine
        finally:
            pids = [pid for pid in engine.pids if pid]
            await engine.close()
            assert not any(map(is_alive, pids))
            assert not [*tmp_path.glob("agentmath-engine-*/socket"), *tmp_path.glob("agentmath-engine-*/source")]

    return make


def context(session: int) -> list[int]:
    return [session % 50 + 1, 2, 3 + session % 7]


async def ask(engine: ReplicatedEngine, session: int, count: int, **sampling: Any) -> Completion:
    return await engine.generate(context(session), Sampling(max_new_tokens=count, **sampling), session=session)


def weights(version: int) -> dict[str, Any]:
    return {"version": torch.tensor([float(version)])}


def said_of(version: int) -> Expected:
    rows = [np.arange(5, dtype=np.int32)]
    return Expected(version=version, rows=rows, logprobs=[np.full(4, -1.0 - version, dtype=np.float32)])


# ---- requests ----


def test_requests_of_several_processes_get_their_own_tokens(opened: Opened):
    async def go() -> None:
        async with opened("normal", "normal") as engine:
            done = await asyncio.gather(*(ask(engine, s, 20 + s) for s in range(30)))
        for session, completion in enumerate(done):
            assert completion.ids.tolist() == fake_engine.expected(context(session), 20 + session)
            assert completion.logprobs.tolist() == [-float(3 + n) for n in range(1, 21 + session)]
            assert (completion.versions == 0).all()
            assert completion.stop_reason is StopReason.LENGTH

    run(go())


def test_the_context_limit_ends_a_request_and_refuses_one_that_fills_it(opened: Opened):
    async def go() -> None:
        async with opened("normal") as engine:
            done = await engine.generate([5] * 390, Sampling(max_new_tokens=50), session=1)
            assert len(done.ids) == 10
            for ids in ([], [5] * 400):
                with pytest.raises(EngineError, match=f"session 1: a context of {len(ids)} tokens cannot be continued"):
                    await engine.generate(ids, Sampling(max_new_tokens=1), session=1)

    run(go())


def test_a_session_has_one_request_at_a_time(opened: Opened):
    async def go() -> None:
        async with opened("slow") as engine:
            first = asyncio.create_task(ask(engine, 1, 30))
            await asyncio.sleep(0)
            with pytest.raises(EngineError, match="session 1 has a running request"):
                await ask(engine, 1, 5)
            assert len((await first).ids) == 30

    run(go())


def test_a_request_that_cannot_be_served_fails_alone(opened: Opened):
    async def go() -> None:
        async with opened("normal") as engine:
            tasks = [ask(engine, 1, 5, temperature=10.0), ask(engine, 2, 5)]
            bad, good = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(bad, EngineError)
            assert str(bad) == "engine 0 (fake): cannot sample with temperature 10"
            assert isinstance(good, Completion)
            assert len(good.ids) == 5

    run(go())


@pytest.mark.parametrize("closes", [False, True])
def test_an_aborted_request_returns_what_it_has(opened: Opened, closes: bool):
    async def go() -> None:
        async with opened("slow") as engine:
            task = asyncio.create_task(ask(engine, 1, 300))
            await asyncio.sleep(0.3)
            if closes:
                engine.close_session(1)
            else:
                await engine.abort(1)
            done = await task
            assert done.stop_reason is StopReason.ABORTED
            assert 0 < len(done.ids) < 300
            assert done.ids.tolist() == fake_engine.expected(context(1), len(done.ids))
            assert len((await ask(engine, 1, 4)).ids) == 4

    run(go())


def test_a_cancelled_request_is_aborted_in_its_process(opened: Opened):
    async def go() -> None:
        async with opened("slow") as engine:
            task = asyncio.create_task(ask(engine, 1, 300))
            await asyncio.sleep(0.2)
            assert (await engine.stats())[0]["running"] == 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            running = 1.0
            deadline = time.monotonic() + 20
            while running and time.monotonic() < deadline:
                running = (await engine.stats())[0]["running"]
            assert running == 0

    run(go())


def test_a_paused_engine_samples_nothing_until_it_goes_on(opened: Opened):
    async def go() -> None:
        async with opened("slow", deadlines={"stall": 0.5}) as engine:
            task = asyncio.create_task(ask(engine, 1, 60))
            await asyncio.sleep(0.1)
            await engine.pause()
            done, _ = await asyncio.wait([task], timeout=2.5)
            assert not done, "a pause longer than engine.stall_seconds is no stall"
            await engine.resume()
            assert (await task).ids.tolist() == fake_engine.expected(context(1), 60)
            assert engine.num_restarts == [0]

    run(go())


# ---- loss and return ----


def test_a_killed_process_loses_and_doubles_nothing(opened: Opened):
    said: list[str] = []

    async def go() -> None:
        async with opened("slow", "slow", said=said) as engine:
            tasks = [asyncio.create_task(ask(engine, s, 150)) for s in range(8)]
            await asyncio.sleep(0.3)
            os.kill(engine.pids[0], signal.SIGKILL)
            for session, done in enumerate(await asyncio.gather(*tasks)):
                assert done.ids.tolist() == fake_engine.expected(context(session), 150)
                assert done.logprobs.tolist() == [-float(3 + n) for n in range(1, 151)]
                assert done.stop_reason is StopReason.LENGTH
            await until(lambda: all(p.is_up for p in engine._processes), "the process is back")
            assert engine.num_restarts == [1, 0]

    run(go())
    assert "engine 0 (fake) was killed by SIGKILL" in said[0]


@pytest.mark.parametrize("seed", range(3))
def test_random_kills_of_every_process_lose_and_double_nothing(opened: Opened, seed: int):
    draw = random.Random(seed)

    async def go() -> None:
        async with opened("slow", "slow", "slow", max_restarts=100) as engine:
            tasks = [asyncio.create_task(ask(engine, s, draw.randint(1, 120))) for s in range(12)]
            for _ in range(8):
                await asyncio.sleep(draw.random() * 0.25)
                await until(lambda: any(engine.pids), "a process runs")
                pid = draw.choice([pid for pid in engine.pids if pid])
                os.kill(pid, draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))
            for session, done in enumerate(await asyncio.gather(*tasks)):
                assert done.ids.tolist() == fake_engine.expected(context(session), len(done.ids))
                assert len(done.ids) == len(done.versions) == len(done.logprobs)
                assert done.stop_reason is StopReason.LENGTH

    run(go())


def test_the_only_process_comes_back_with_the_current_weights_before_it_serves(opened: Opened):
    async def go() -> None:
        async with opened("slow") as engine:
            await engine.update_weights(7, weights(7))
            await engine.check_parity(said_of(7))
            task = asyncio.create_task(ask(engine, 1, 80))
            await asyncio.sleep(0.2)
            os.kill(engine.pids[0], signal.SIGKILL)
            done = await task
            assert done.ids.tolist() == fake_engine.expected(context(1), 80)
            assert (done.versions == 7).all()

    run(go())


def test_a_process_that_comes_back_wrong_does_not_serve(opened: Opened):
    said: list[str] = []

    async def go() -> None:
        async with opened("normal", max_restarts=2, said=said) as engine:
            await engine.update_weights(4, weights(4))
            await engine.check_parity(said_of(4))
            engine._processes[0]._spec = spec("stale")
            os.kill(engine.pids[0], signal.SIGKILL)
            with pytest.raises(EngineError, match=r"no engine is left: each of 1 was lost more than .* = 2 times"):
                await ask(engine, 1, 5)
            with pytest.raises(EngineError, match="no engine is left"):
                await ask(engine, 2, 5)

    run(go())
    assert any("does not compute with the trainer's weights of version 4" in line for line in said)


def test_a_process_that_dies_in_an_update_is_brought_up_to_date(opened: Opened):
    async def go() -> None:
        async with opened("die-at-update", "normal") as engine:
            engine._processes[0]._spec, first = spec("normal"), engine._processes[0]._spec
            assert first.model == "die-at-update"
            await engine.update_weights(3, weights(3))
            await engine.check_parity(said_of(3))
            await until(lambda: all(p.is_up for p in engine._processes), "the process is back")
            await until(lambda: all(seat.is_up for seat in engine._router._seats), "it serves again")
            done = await asyncio.gather(*(ask(engine, s, 5) for s in range(4)))
            assert {int(v) for c in done for v in c.versions} == {3}

    run(go())


def test_a_process_that_falls_silent_is_ended_and_its_requests_go_on_elsewhere(opened: Opened):
    said: list[str] = []

    async def go() -> None:
        async with opened("mute", "normal", deadlines={"stall": 1.5}, max_restarts=0, said=said) as engine:
            for session, done in enumerate(await asyncio.gather(*(ask(engine, s, 5) for s in range(4)))):
                assert done.ids.tolist() == fake_engine.expected(context(session), 5)

    run(go())
    assert "sent no token of 2 requests within engine.stall_seconds = 1.5" in said[0]


def test_a_server_whose_engine_is_dead_ends_and_its_requests_go_on_elsewhere(opened: Opened):
    said: list[str] = []

    async def go() -> None:
        async with opened("dead", "normal", max_restarts=0, said=said) as engine:
            # The one request that makes the dead engine fail cannot be served anywhere.
            bad = asyncio.create_task(ask(engine, 1, 5, temperature=10.0))
            with pytest.raises(EngineError, match="engine 1"):
                await bad
            done = await ask(engine, 2, 5)
            assert done.ids.tolist() == fake_engine.expected(context(2), 5)

    run(go())
    assert "engine 0 (fake) exited with status 1; it said last: error: the engine behind this server is dead" in said[0]


# ---- weights ----


def test_every_process_gets_the_weights_and_proves_them(opened: Opened):
    async def go() -> None:
        async with opened("normal", "normal") as engine:
            for version in (1, 2):
                await engine.update_weights(version, weights(version))
                assert (await engine.check_parity(said_of(version))).mean == 0.0
            done = await asyncio.gather(*(ask(engine, s, 3) for s in range(2)))
            assert {int(v) for c in done for v in c.versions} == {2}

    run(go())


def test_one_process_with_stale_weights_is_named(opened: Opened):
    async def go() -> None:
        async with opened("normal", "stale") as engine:
            await engine.update_weights(5, weights(5))
            with pytest.raises(EngineError, match=r"engine 1 \(fake\) does not compute .* differ by 5 on average"):
                await engine.check_parity(said_of(5))

    run(go())


def test_weights_must_be_handed_over(opened: Opened):
    async def go() -> None:
        async with opened("normal") as engine:
            with pytest.raises(EngineError, match="weights of their own"):
                await engine.update_weights(1, None)

    run(go())


# ---- bad starts ----


def start(opened: Opened, *models: str, **values: Any) -> str:
    async def go() -> None:
        async with opened(*models, **values):
            pass

    with pytest.raises((EngineError, ConfigError)) as caught:
        run(go())
    (line,) = str(caught.value).splitlines()
    return line


def test_an_engine_that_refuses_its_model_ends_all_of_them(opened: Opened):
    assert start(opened, "normal", "refuse") == "engine 1 (fake) cannot start: no such model"


def test_an_engine_that_hangs_at_its_start_is_ended(opened: Opened):
    line = start(opened, "hang", deadlines={"start": 1.0})
    assert "engine 0 (fake) did not load hang within engine.start_seconds = 1; it said last: loading shard" in line


def test_an_engine_that_never_reports_is_ended(opened: Opened, python: str, monkeypatch: pytest.MonkeyPatch):
    Path(python).write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(process_module, "DIAL_SECONDS", 1.0)
    assert "engine 0 (fake) did not report within 1 s of its start" in start(opened)


def test_an_engine_that_ends_at_its_start_says_why(opened: Opened, python: str):
    Path(python).write_text("#!/bin/sh\necho 'ImportError: libfoo.so' >&2\nexit 3\n")
    line = start(opened)
    assert "engine 0 (fake) exited with status 3 while it started; it said last: ImportError: libfoo.so" in line


@pytest.mark.parametrize("text", ["", "not a script"])
def test_a_python_that_cannot_be_run(opened: Opened, python: str, text: str):
    if text:
        Path(python).write_text(text)
    else:
        Path(python).unlink()
    line = start(opened)
    assert f"engine.python = '{python}'" in line


def test_a_python_of_another_version_of_ours(opened: Opened, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentmath.engines.wire.PROTOCOL", 2)
    assert "speaks protocol 1, this trainer 2: engine.python runs another version of agentmath" in start(opened)


def test_a_socket_path_that_is_too_long(tmp_path: Path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with pytest.raises(
        ConfigError, match=r"bytes, Unix sockets take 107: name a shorter folder with engine.socket_dir"
    ):
        Home.make(0, str(folder))
    assert [*folder.iterdir()] == []


def test_a_socket_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"engine.socket_dir = .* cannot hold an engine's socket"):
        Home.make(0, str(tmp_path / "none"))


# ---- death of the trainer ----

TRAINER = """
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
from agentmath.engines.process import Deadlines, EngineProcess
from agentmath.engines.spawn import Home
import test_replicas as t
process = EngineProcess(number=0, kind="fake", spec=t.spec(sys.argv[3]), home=Home.make(0, sys.argv[4]),
                        python=sys.argv[2], deadlines=Deadlines(start=60, answer=60, stall=60))
async def main():
    task = asyncio.create_task(process.start())
    while process.pid is None:
        await asyncio.sleep(0.01)
    print(process.pid, flush=True)
    await task
    print("up", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("model", ["normal", "hang"])
def test_nothing_survives_a_trainer_that_is_killed(python: str, tmp_path: Path, model: str):
    paths = [str(Path(__file__).parent), str(Path(fake_engine.__file__).parent)]
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, paths[0], python, model, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths[1]},
    )
    try:
        assert trainer.stdout is not None
        pid = int(trainer.stdout.readline())
        if model == "normal":
            assert trainer.stdout.readline() == "up\n"
        assert is_alive(pid)
    finally:
        trainer.kill()
        trainer.wait(30)
        assert trainer.stdout is not None
        trainer.stdout.close()
    run(until(lambda: not is_alive(pid), "the engine process is gone"))
