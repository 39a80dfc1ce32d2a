"""Other projects' routers on the session replay of bench/balancer.py: real ones, over loopback, before stub workers.

A stub answers at once with no text, after the time that the prompt's end asks for, and counts what its cache would
have held. Blocks are 64 characters, as these routers match characters; the session goes as the header x-session-id.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from balancer_replays import NUM_ACTIVE, Replay, Request, Worker

ROUTERS: dict[str, tuple[str, ...]] = {
    "vllm-router": ("cache_aware", "round_robin", "consistent_hash", "sticky_least_loaded"),
    "sglang-router": ("cache_aware", "round_robin"),
}
MODULES = {"vllm-router": "vllm_router", "sglang-router": "sglang_router"}
LETTERS = 64
START_SECONDS, REQUEST_SECONDS = 60.0, 60.0


def missing(system: str) -> str | None:
    """Why the system cannot be run here; None when it can."""
    for module in (MODULES[system], "aiohttp"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: pip install 'agentmath[bench]'"
    return None


def prompt_of(request: Request) -> str:
    text = "".join(hashlib.sha256(str(block).encode()).hexdigest() for block in request.blocks)
    return f"{text}{round(request.seconds * 1000):04d}"


# ---- stub workers: a process of their own ----


def serve_stubs(ports: list[int], cache_blocks: int) -> None:
    """Run one worker on each port until the process is ended."""
    from aiohttp import web  # pyright: ignore[reportMissingImports]

    async def state(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "model_path": "stub", "data": [{"id": "stub", "object": "model"}]})

    def app_of(worker: Worker) -> web.Application:
        async def generate(request: web.Request) -> web.Response:
            body = await request.json()
            prompt = body.get("prompt") or body["text"]
            worker.serve([prompt[i : i + LETTERS] for i in range(0, len(prompt) - 4, LETTERS)])
            await asyncio.sleep(int(prompt[-4:]) / 1000)
            choice = {"index": 0, "text": "", "finish_reason": "stop"}
            return web.json_response(
                {"id": "1", "object": "text_completion", "created": 0, "model": "stub", "choices": [choice], "text": ""}
            )

        async def counts(_: web.Request) -> web.Response:
            return web.json_response([worker.num_requests, worker.num_blocks, worker.num_hits])

        app = web.Application(client_max_size=1 << 26)
        for path in ("/health", "/v1/models", "/get_model_info", "/get_server_info", "/model_info", "/server_info"):
            app.router.add_get(path, state)
        app.router.add_get("/counts", counts)
        app.router.add_post("/flush_cache", state)
        app.router.add_post("/v1/completions", generate)
        app.router.add_post("/generate", generate)
        return app

    async def run() -> None:
        for port in ports:
            runner = web.AppRunner(app_of(Worker(cache_blocks)), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()

    asyncio.run(run())


def free_ports(n: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return ports


@contextmanager
def process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def router_command(system: str, policy: str, ports: list[int], workers: list[int]) -> list[str]:
    module = {"vllm-router": "vllm_router.launch_router", "sglang-router": "sglang_router.launch_router"}[system]
    urls = [f"http://127.0.0.1:{port}" for port in workers]
    return [
        *(sys.executable, "-m", module, "--host", "127.0.0.1", "--port", str(ports[0]), "--worker-urls", *urls),
        *("--policy", policy, "--prometheus-port", str(ports[1]), "--log-level", "error"),
    ]


# ---- the client ----


def run_router(replay: Replay, system: str, policy: str, num_workers: int) -> dict[str, Any]:
    """Counts of the workers, requests a second and the router's time a request."""
    *workers, port, metrics = free_ports(num_workers + 2)
    stub = [sys.executable, str(Path(__file__)), json.dumps(workers), str(replay.cache_blocks)]
    with process(stub), process(router_command(system, policy, [port, metrics], workers)) as router:
        return asyncio.run(drive(replay, system, port, workers, router))


async def drive(
    replay: Replay, system: str, port: int, workers: list[int], router: subprocess.Popen[bytes]
) -> dict[str, Any]:
    import aiohttp  # pyright: ignore[reportMissingImports]

    path, field = ("/generate", "text") if system == "sglang-router" else ("/v1/completions", "prompt")
    waiting, extra_ns = list(replay.sessions)[::-1], []
    limits = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0)) as client:
        await until_healthy(client, [*workers, port], router)

        async def send(request: Request) -> None:
            body = {field: prompt_of(request), "model": "stub", "max_tokens": 1}
            headers = {"x-session-id": str(request.session)}
            begin = time.perf_counter_ns()
            async with client.post(f"http://127.0.0.1:{port}{path}", json=body, headers=headers) as answer:
                answer.raise_for_status()
                await answer.read()
            extra_ns.append(time.perf_counter_ns() - begin - round(request.seconds * 1e9))

        async def slot() -> None:
            while waiting:
                for request in waiting.pop():
                    await send(request)

        begin = time.perf_counter()
        await asyncio.gather(*(slot() for _ in range(NUM_ACTIVE)))
        seconds = time.perf_counter() - begin
        seen = []
        for number in workers:
            async with client.get(f"http://127.0.0.1:{number}/counts") as answer:
                worker = Worker(0)
                worker.num_requests, worker.num_blocks, worker.num_hits = await answer.json()
                seen.append(worker)
    return {
        "workers": seen,
        "decisions_per_second": len(replay.requests) / seconds,
        "p99_us": sorted(extra_ns)[len(extra_ns) * 99 // 100] / 1000,
        "bytes_per_block": None,
    }


async def until_healthy(client: Any, ports: list[int], router: subprocess.Popen[bytes]) -> None:
    """Wait until all answer. Raises TimeoutError that names who does not."""
    import aiohttp  # pyright: ignore[reportMissingImports]

    deadline = time.monotonic() + START_SECONDS
    for port in ports:
        while True:
            if router.poll() is not None:
                raise RuntimeError(f"the router ended at once with code {router.returncode}")
            try:
                async with client.get(f"http://127.0.0.1:{port}/health") as answer:
                    if answer.status == 200:
                        break
            except aiohttp.ClientError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"port {port} did not answer within {START_SECONDS:g} s")
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    serve_stubs(json.loads(sys.argv[1]), int(sys.argv[2]))
