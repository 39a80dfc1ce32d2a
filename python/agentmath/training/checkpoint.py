"""Checkpoints that are whole or are not there.

    FOLDER/step-00000010/
        model.safetensors   weights; a tensor that shares memory with another is stored once
        optimizer.pt        tensors and plain values, readable without running code
        state.json          everything else that counts: steps, consumed tasks, random states of Python, versions
        parked.bin          unfinished trajectories, as the caller encoded them
        recipe.toml         the resolved recipe
        manifest.json       size and SHA-256 of each file: a folder that does not match it is no checkpoint

A checkpoint is written beside its place, forced to disk file by file, and renamed: a process killed at any moment
leaves the last good one, and at worst a folder that starts with "." and is removed by the next save. A disk that fills
up does the same and raises CheckpointError. One process writes to a folder at a time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from agentmath.core.errors import CheckpointError
from agentmath.core.types import JSON
from agentmath.telemetry.run_dir import MANIFEST

_NAME = re.compile(r"step-(\d{8})(?:-(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one checkpoint holds. Collected in one place so that all of it is of the same moment."""

    model: Mapping[str, Tensor]
    """Name -> weight; tied weights may appear under both names."""
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    """Tensors, numbers, strings, lists and dicts of them."""
    state: JSON = field(default_factory=dict)
    parked: bytes = b""
    recipe: str = ""


def save(folder: Path, step: int, parts: Parts, *, keep: int) -> Path:
    """Write a checkpoint of `step` and then remove all but the newest `keep`; returns its folder.

    Raises CheckpointError when it cannot be written; older checkpoints are then untouched.
    """
    scratch = folder / f".writing-step-{step:08d}-{os.getpid()}"
    free: int | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_scratch(folder)
        free = shutil.disk_usage(folder).free
        scratch.mkdir()
        _write(scratch, step, parts)
        final = _free_name(folder, step)
        scratch.rename(final)
        _sync_folder(folder)
    # Named boundary: the writers of weights and optimiser report a full disk each in their own way.
    except (OSError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise _write_error(
            error, parts, f"the checkpoint of step {step} could not be written to {folder}", free
        ) from error
    _remove_old(final, keep)
    return final


def latest(folder: Path, say: Callable[[str], None] = lambda _: None) -> Path | None:
    """Newest checkpoint whose files are all there, of the right size and content; None when there is none at all.

    Each damaged one that is passed over is told to say. Raises CheckpointError when only damaged ones are there: a run
    that has got somewhere is not begun anew unasked.
    """
    damaged: list[str] = []
    for path in sorted(_found(folder), key=_order, reverse=True):
        damage = _damage(path)
        if damage is None:
            for line in damaged:
                say(f"passed over, as it is damaged: {line}")
            return path
        damaged.append(f"{path} ({damage})")
    if damaged:
        raise CheckpointError(
            f"no checkpoint in {folder} is whole: {'; '.join(damaged)}. Restore one from a copy; or remove {folder} to "
            "go on from what was saved before, or from the beginning"
        )
    return None


def load(path: Path) -> tuple[int, Parts]:
    """(step, parts) of one checkpoint, tensors on the CPU. Raises CheckpointError for one that is not whole."""
    damage = _damage(path)
    if damage is not None:
        raise CheckpointError(f"{path} is not a whole checkpoint: {damage}; use another one, or start again")
    manifest = _read_json(path / MANIFEST)
    try:
        model = safetensors.torch.load_file(path / "model.safetensors")
        optimizer = torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True)
        state = _read_json(path / "state.json")
    except (OSError, RuntimeError, SafetensorError, ValueError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); was it written by another version?") from error
    model |= {alias: model[name] for alias, name in manifest["aliases"].items()}
    parked, recipe = (path / "parked.bin").read_bytes(), (path / "recipe.toml").read_text(encoding="utf-8")
    return manifest["step"], Parts(model=model, optimizer=optimizer, state=state, parked=parked, recipe=recipe)


def _write(scratch: Path, step: int, parts: Parts) -> None:
    stored, aliases = _without_shared(parts.model)
    _check_plain(parts.optimizer, "optimizer")
    writers: dict[str, Callable[[Path], Any]] = {
        "model.safetensors": lambda p: safetensors.torch.save_file(stored, p),
        "optimizer.pt": lambda p: torch.save(dict(parts.optimizer), p),
        "state.json": lambda p: p.write_text(json.dumps(parts.state, allow_nan=True), encoding="utf-8"),
        "parked.bin": lambda p: p.write_bytes(parts.parked),
        "recipe.toml": lambda p: p.write_text(parts.recipe, encoding="utf-8"),
    }
    files = {}
    for name, write in writers.items():
        path = scratch / name
        write(path)
        _sync_file(path)
        files[name] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
    manifest = {"format": 1, "step": step, "aliases": aliases, "files": files}
    (scratch / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    _sync_file(scratch / MANIFEST)
    _sync_folder(scratch)


def _without_shared(model: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors to store, alias -> name of the stored tensor that it is the same memory as)."""
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    names: dict[tuple[Any, ...], str] = {}
    for name, tensor in model.items():
        where = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), *tensor.shape, *tensor.stride())
        first = names.setdefault(where, name) if tensor.numel() else name
        if first == name:
            whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
            stored[name] = tensor.detach().contiguous() if whole else tensor.detach().clone().contiguous()
        else:
            aliases[name] = first
    return stored, aliases


def _check_plain(value: Any, where: str) -> None:
    """Refuse now what a safe load would refuse after the crash."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_plain(inner, f"{where}[{key!r}]")
    elif type(value) in (list, tuple):
        for index, inner in enumerate(value):
            _check_plain(inner, f"{where}[{index}]")
    elif not (isinstance(value, Tensor) or type(value) in (int, float, bool, str, type(None))):
        raise TypeError(
            f"{where} is a {type(value).__module__}.{type(value).__name__}; only tensors and plain values go in"
        )


def _write_error(error: Exception, parts: Parts, what: str, free: int | None) -> CheckpointError:
    if free is None:
        return CheckpointError(f"{what}: {error}; check that the folder may be made and written to")
    needed = _num_bytes(parts.model) + _num_bytes(parts.optimizer) + len(parts.parked) + len(repr(parts.state))
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
    if full or free < needed:
        return CheckpointError(
            f"{what}: the disk is full. About {needed} bytes are needed, {free} were free; "
            "make room or choose another run.output_dir, then resume from the last checkpoint"
        )
    return CheckpointError(f"{what}: {error} (about {needed} bytes are needed, {free} were free)")


def _num_bytes(value: Any) -> int:
    """Bytes of all tensors inside nested dicts and lists."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(_num_bytes(v) for v in value.values())
    return sum(_num_bytes(v) for v in value) if isinstance(value, list | tuple) else 0


def _found(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [p for p in folder.iterdir() if p.is_dir() and _NAME.fullmatch(p.name)]


def _order(path: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2] or 0)


def _free_name(folder: Path, step: int) -> Path:
    """step-00000010, or step-00000010-1, ... when the step was saved before: a folder is never written over."""
    taken = [_order(p)[1] for p in _found(folder) if _order(p)[0] == step]
    return folder / (f"step-{step:08d}-{max(taken) + 1}" if taken else f"step-{step:08d}")


def _damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        manifest = _read_json(path / MANIFEST)
        for name, facts in manifest["files"].items():
            size = (path / name).stat().st_size
            if size != facts["bytes"]:
                return f"{name} has {size} bytes instead of {facts['bytes']}"
            if _digest(path / name) != facts["sha256"]:
                return f"the content of {name} has changed"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _remove_scratch(folder: Path) -> None:
    for path in folder.glob(".writing-step-*"):
        shutil.rmtree(path, ignore_errors=True)


def _remove_old(newest: Path, keep: int) -> None:
    others = sorted((p for p in _found(newest.parent) if p != newest), key=_order)
    older = [p for p in others if _order(p) < _order(newest)]
    # Training went on from an earlier step than these: they were damaged, and would shadow what is written now.
    later = [p for p in others if _order(p) > _order(newest) and _damage(p) is not None]
    for path in [*older[: len(older) - (max(1, keep) - 1)], *later]:
        shutil.rmtree(path, ignore_errors=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
