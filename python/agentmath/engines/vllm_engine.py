"""vLLM behind the engine protocol: token ids in and out, live weight updates that are right on CPUs too.

The only file that imports vllm, inside functions. It runs in an engine process, in whatever environment has vllm; of
our package it needs core, the engine protocol and the stop finder. Its second half runs one process further down, in
vLLM's workers.
"""

# pyright: reportMissingImports=false
# The environment that the checks run in need not have vllm.

from __future__ import annotations

import asyncio
import ctypes
import importlib.metadata
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentmath.core.errors import EngineError
from agentmath.core.seeds import derive_seed
from agentmath.core.types import StopReason
from agentmath.engines.backend import Chunk, Emit, Ending, Floats, Ids, LoadSpec, Wanted
from agentmath.engines.stops import StopFinder

_MAX_CPU_CACHE_BYTES = 4 << 30
_BLOCK_TOKENS = 32
"""Smallest block of the CPU kernels; with the library's 128 short prompts never meet a cached prefix."""
_PR_SET_PDEATHSIG = 1


class FileTokenizer:
    """Just enough of core.interfaces.Tokenizer to find stop texts: decoding by a model folder's tokenizer.json."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._backend = Tokenizer.from_file(str(path))

    def decode(self, ids: Sequence[int]) -> str:
        return self._backend.decode([int(i) for i in ids], skip_special_tokens=False)


@dataclass(slots=True, kw_only=True)
class _Running:
    """A request in work."""

    wanted: Wanted
    emit: Emit
    context: list[int]
    """What vLLM is given: the request's own context and what was sampled since."""
    left: int
    """Tokens that may still be sampled."""
    is_aborted: bool = False
    num_starts: int = 0
    num_counted: int = 0
    """Starts whose cached prefix was counted."""


class VllmBackend:
    """Backend over vllm.AsyncLLM."""

    def __init__(self) -> None:
        self._llm: Any = None
        self._version = 0
        self._eos: frozenset[int] = frozenset()
        self._stops: StopFinder | None = None
        self._running: dict[int, _Running] = {}
        self._may_run = asyncio.Event()
        self._may_run.set()
        self._max_context_tokens = 0
        self._num_sampled = self._num_cached = 0

    async def load(self, spec: LoadSpec) -> Mapping[str, Any]:
        _set_environment(spec)
        try:
            from vllm import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision of another torch
            raise EngineError(
                f"the Python of this engine has no vllm that can be imported ({error}): name one that has with "
                "engine.python = PATH (`make vllm` builds one)"
            ) from error
        try:
            self._llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**_arguments(spec)))
            await self._llm.collective_rpc("follow_the_engine")
        except Exception as error:  # whatever keeps vLLM from serving this model
            raise EngineError(f"vLLM cannot load the model of {spec.model}: {_reason(error)}") from error
        self._version, self._eos = spec.version, frozenset(spec.eos_ids)
        self._max_context_tokens = spec.max_context_tokens
        self._stops = StopFinder(FileTokenizer(Path(spec.model) / "tokenizer.json"), 0)  # pyright: ignore[reportArgumentType]
        return {"vllm": _vllm_version(), "mends_reload": spec.mends_reload}

    # ---- requests ----

    async def generate(self, wanted: Wanted, emit: Emit) -> None:
        left = min(wanted.sampling.max_new_tokens, self._max_context_tokens - len(wanted.ids))
        request = _Running(wanted=wanted, emit=emit, context=wanted.ids.tolist(), left=left)
        self._running[wanted.key] = request
        try:
            while not await self._attempt(request):
                pass
        finally:
            del self._running[wanted.key]

    async def _attempt(self, request: _Running) -> bool:
        """Sample until the request ends (True), or until it is interrupted by a pause that drops caches (False)."""
        await self._may_run.wait()
        if request.is_aborted:
            return self._end(request, StopReason.ABORTED)
        request.num_starts += 1
        name = f"{request.wanted.key}.{request.num_starts}"
        prompt = {"prompt_token_ids": request.context, "cache_salt": f"version {self._version}"}
        outputs = self._llm.generate(prompt, self._sampling(request), name)
        try:
            async for output in outputs:
                if self._take(request, output):
                    return True
        finally:
            await outputs.aclose()
        if request.is_aborted:
            return self._end(request, StopReason.ABORTED)
        return False

    def _end(self, request: _Running, reason: StopReason) -> bool:
        request.emit(Chunk(ids=[], logprobs=[], version=self._version, ending=Ending(reason=reason)))
        return True

    def _sampling(self, request: _Running) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = request.wanted.sampling
        draw = sampling.first_draw + sampling.max_new_tokens - request.left
        return SamplingParams(
            temperature=sampling.temperature,
            max_tokens=request.left,
            seed=derive_seed(sampling.seed, draw),
            stop_token_ids=sorted(self._eos),
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    def _take(self, request: _Running, output: Any) -> bool:
        """Pass new tokens on, cut where our own engine would cut; True when the request has ended."""
        (part,) = output.outputs
        ids = [int(i) for i in part.token_ids]
        logprobs = [entry[i].logprob for i, entry in zip(ids, part.logprobs or [], strict=True)]
        if request.num_counted < request.num_starts:
            request.num_counted = request.num_starts
            self._num_cached += output.num_cached_tokens or 0
        ending, count = self._cut(request, ids)
        request.context += ids[:count]
        request.left -= count
        self._num_sampled += count
        if ending is None and request.left <= 0:
            ending = Ending(reason=StopReason.LENGTH)
        if ending is None and part.finish_reason not in (None, "abort"):
            raise EngineError(f"vLLM ended a request with {part.finish_reason!r} ({part.stop_reason!r})")
        if count or ending is not None:
            chunk = Chunk(ids=ids[:count], logprobs=logprobs[:count], version=self._version, ending=ending)
            request.emit(chunk)
        return ending is not None

    def _cut(self, request: _Running, ids: Sequence[int]) -> tuple[Ending | None, int]:
        """How the request ends with the new tokens, if it does, and how many of them are kept."""
        stop = request.wanted.sampling.stop
        assert self._stops is not None
        window = self._stops.window(stop) if stop else 0
        tail = request.context[-window:] if window else []
        for count, token in enumerate(ids, start=1):
            if token in self._eos:
                return Ending(reason=StopReason.EOS), count
            if stop:
                tail = [*tail[-window + 1 :], token]
                if self._stops.is_suspect(stop, token) and (text := self._stops.find(stop, tail)):
                    return Ending(reason=StopReason.STOP, stop_text=text), count
        return None, len(ids)

    async def abort(self, key: int) -> None:
        request = self._running.get(key)
        if request is not None and not request.is_aborted:
            request.is_aborted = True
            await self._llm.abort(f"{key}.{request.num_starts}")

    async def close_session(self, session: int) -> None:
        """vLLM keeps prefixes, not sessions."""

    async def score(self, rows: Sequence[Ids]) -> list[Floats]:
        return [*await asyncio.gather(*(self._score(n, row.tolist()) for n, row in enumerate(rows)))]

    async def _score(self, number: int, ids: list[int]) -> Floats:
        from vllm import SamplingParams

        params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        found: Any = None
        async for output in self._llm.generate({"prompt_token_ids": ids}, params, f"score.{id(ids)}.{number}"):
            found = output.prompt_logprobs or found
        return np.array([found[i][token].logprob for i, token in enumerate(ids) if i], dtype=np.float32)

    # ---- operations ----

    async def update_weights(self, version: int, path: str, *, keeps_kv: bool) -> None:
        was_running = self._may_run.is_set()
        await self.pause(keeps_kv=keeps_kv)
        try:
            await self._llm.collective_rpc("load_shared_weights", args=(path,))
            self._version = version
            await self._llm.reset_prefix_cache()
        finally:
            if was_running:
                await self.resume()

    async def pause(self, *, keeps_kv: bool) -> None:
        self._may_run.clear()
        await self._llm.pause_generation(mode="keep" if keeps_kv else "abort", clear_cache=not keeps_kv)
        # Tokens of the last step are on their way to the requests: they belong to the version that is ending.
        await asyncio.sleep(0.02)

    async def resume(self) -> None:
        await self._llm.resume_generation()
        self._may_run.set()

    async def reset_prefix_cache(self) -> None:
        await self._llm.reset_prefix_cache()

    def is_dead(self) -> bool:
        return self._llm is not None and bool(self._llm.errored)

    async def check_health(self) -> None:
        try:
            await self._llm.check_health()
        except Exception as error:  # the library's own kinds of death
            raise EngineError(f"vLLM is not healthy: {_reason(error)}") from error

    def stats(self) -> Mapping[str, float]:
        return {
            "running": float(len(self._running)),
            "version": float(self._version),
            "sampled_tokens": float(self._num_sampled),
            "cached_tokens": float(self._num_cached),
        }


def _set_environment(spec: LoadSpec) -> None:
    """What vLLM reads from the environment, before it is imported. Nothing is fetched and nobody is told."""
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "0")
    if spec.num_threads:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


def _arguments(spec: LoadSpec) -> dict[str, Any]:
    from vllm.platforms import current_platform

    arguments: dict[str, Any] = {
        "model": spec.model,
        "dtype": spec.dtype,
        "max_model_len": spec.max_context_tokens,
        "max_num_seqs": spec.max_rows,
        "max_num_batched_tokens": max(spec.max_prefill_tokens, spec.max_context_tokens),
        "tensor_parallel_size": spec.tensor_parallel,
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "worker_extension_cls": f"{__name__}.{'MendingWorker' if spec.mends_reload else 'Worker'}",
        "disable_log_stats": True,
        "generation_config": "vllm",
        "seed": 0,
    }
    if spec.kv_cache_bytes:
        arguments["kv_cache_memory_bytes"] = spec.kv_cache_bytes
    if current_platform.is_cpu():
        arguments |= {"enforce_eager": True, "block_size": _BLOCK_TOKENS}
        arguments.setdefault("kv_cache_memory_bytes", _MAX_CPU_CACHE_BYTES)
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(-(-arguments["kv_cache_memory_bytes"] >> 30)))
    return arguments


def _vllm_version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def _reason(error: BaseException) -> str:
    """The innermost cause in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class Worker:
    """Mixed into vLLM's worker, whose attributes these methods use; called by name."""

    mends_reload = False

    def follow_the_engine(self) -> None:
        """End with the process that started this one, however that ends."""
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def load_shared_weights(self: Any, path: str) -> None:
        """Read all weights from a safetensors file."""
        from safetensors.torch import load_file

        self.reload_weights(weights_iterator=iter(load_file(path).items()))
        if self.mends_reload:
            _mend_cpu_reload(self.get_model())


class MendingWorker(Worker):
    """Worker whose reloads are right on CPUs too."""

    mends_reload = True


def _mend_cpu_reload(model: Any) -> None:
    """Bring packed copies of weights up to date that vLLM's CPU reload leaves behind.

    A tied head multiplies by a copy that was packed when the model was loaded; experts are left unpacked where the
    kernel reads packed ones, as they are packed at the first load only. Neither raises an error.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    head = getattr(model, "lm_head", None)
    if head is not None and hasattr(head, "cpu_linear"):
        dispatch_cpu_unquantized_gemm(head, remove_weight=False)
    for layer in model.modules():
        kernel = getattr(getattr(layer, "quant_method", None), "moe_kernel", None)
        if kernel is not None and hasattr(layer, "w13_weight"):
            kernel.fused_experts.process_weights_after_loading(layer)
