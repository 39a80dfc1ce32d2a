"""The rows that decode together, as arrays: bookkeeping of a step costs the same for one row and for a hundred.

Row i lies in slot i of the cache. Names in shapes: N rows at most, A rows in use, P cache positions, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agentmath.engines.requests import Output, Request

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]


class Rows:
    """Struct of arrays over rows; the first `size` are in use."""

    def __init__(self, *, max_rows: int, num_positions: int, eos: npt.NDArray[np.bool_]) -> None:
        self.size = 0
        self.requests: list[Request] = []
        self.token: Longs = np.zeros(max_rows, dtype=np.int64)
        """[N] the newest token, not fed yet."""
        self.position: Longs = np.zeros(max_rows, dtype=np.int64)
        """[N] where it will be fed; as many positions are in the cache."""
        self.temperature: Floats = np.ones(max_rows, dtype=np.float32)
        self.top_p: Floats = np.ones(max_rows, dtype=np.float32)
        self._count: Longs = np.zeros(max_rows, dtype=np.int64)
        self._limit: Longs = np.zeros(max_rows, dtype=np.int64)
        self._uniforms: Floats = np.zeros((max_rows, num_positions), dtype=np.float32)
        self._ids = np.zeros((max_rows, num_positions), dtype=np.int32)
        self._logprobs: Floats = np.zeros((max_rows, num_positions), dtype=np.float32)
        self._versions = np.zeros((max_rows, num_positions), dtype=np.int32)
        self._ending = np.zeros((max_rows, len(eos)), dtype=np.bool_)
        self._eos = eos
        self._every = np.arange(max_rows)

    def add(self, request: Request, suspects: npt.NDArray[np.bool_] | None) -> int:
        """Append a row whose context is cached and whose next token is about to be sampled; returns its index.

        suspects [V]: ids that may complete one of the request's stop texts.
        """
        row, before = self.size, request.output
        num_before = len(before.ids)
        self.size += 1
        self.requests.append(request)
        self.position[row] = len(request.context) + num_before - 1
        self.temperature[row], self.top_p[row] = request.sampling.temperature, request.sampling.top_p
        self._count[row], self._limit[row] = num_before, request.limit
        self._uniforms[row, : request.limit] = request.uniforms
        self._ids[row, :num_before] = before.ids
        self._logprobs[row, :num_before] = before.logprobs
        self._versions[row, :num_before] = before.versions
        self._ending[row] = self._eos if suspects is None else self._eos | suspects
        return row

    def next_uniforms(self) -> Floats:
        """[A] the number that draws each row's next token."""
        every = self._every[: self.size]
        return self._uniforms[every, self._count[: self.size]]

    def accept(self, ids: Longs, logprobs: Floats, version: int) -> list[int]:
        """Append one sampled token [A] to every row; returns the rows that may have ended."""
        every, count = self._every[: self.size], self._count[: self.size]
        self._ids[every, count] = ids
        self._logprobs[every, count] = logprobs
        self._versions[every, count] = version
        count += 1
        self.token[: self.size] = ids
        self.position[: self.size] += 1
        return np.flatnonzero(self._ending[every, ids] | (count >= self._limit[: self.size])).tolist()

    def ended_by_eos(self, row: int) -> bool:
        """Whether the newest token ends a message."""
        return bool(self._eos[self.token[row]])

    def is_full(self, row: int) -> bool:
        """Whether the row may not sample another token."""
        return bool(self._count[row] >= self._limit[row])

    def tail(self, row: int, length: int) -> list[int]:
        """The newest tokens of context and output."""
        count = int(self._count[row])
        new = self._ids[row, max(count - length, 0) : count].tolist()
        missing = length - len(new)
        return [*self.requests[row].context[-missing:].tolist(), *new] if missing else new

    def output(self, row: int) -> Output:
        """All that the row sampled, as copies."""
        count = int(self._count[row])
        return Output(
            ids=self._ids[row, :count].copy(),
            logprobs=self._logprobs[row, :count].copy(),
            versions=self._versions[row, :count].copy(),
        )

    def move_last(self, row: int) -> None:
        """Put the last row in place of `row`; the caller moves the cache."""
        last = self.size - 1
        request = self.requests.pop()
        self.size = last
        if row == last:
            return
        self.requests[row] = request
        for array in (self.token, self.position, self.temperature, self.top_p, self._count, self._limit):
            array[row] = array[last]
        for array in (self._uniforms, self._ids, self._logprobs, self._versions, self._ending):
            array[row] = array[last]

    def clear(self) -> None:
        """Drop all rows."""
        self.size = 0
        self.requests.clear()
