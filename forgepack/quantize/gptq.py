"""GPTQ: columns rounded one after another, each to the code nearest to its target, which makes up for all before.

For H = L·Lᵀ with columns in ascending order (``factor``), the weighted error of a row d = w - q is
d·H·dᵀ = Σ_j (L_jj·(target_j - q_j))² with target_j = w_j + Σ_{i>j} d_i·L_ij/L_jj. Starting at the last column, each
q_j is the code nearest to its target. The sum of these squares is the error that the rounding leaves.

Speed: the sums over all finished columns are one product for 256 columns at once; inside, levels of 128 and 16
columns keep the working set in cache, and only 16 columns are summed one by one. Rows are independent: a task takes
up to 4352 of them, so that calls cost little, and the column loop allocates nothing. Products are
float32, the factor is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from forgepack.parallel import Pool, even_spans, spans
from forgepack.quantize.factor import Factor
from forgepack.quantize.lut import CODES, Lut4, midpoints

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]

OUTER = 256
INNER = 16
ROWS = 4352


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounded:
    """What GPTQ leaves: ``indices`` (rows, n) in the order of its input, and each row's d·(H + ridge)·dᵀ."""

    indices: U8
    loss: F64


def gptq(normalised: F32, factor: Factor, lut: Lut4, *, block: int, pool: Pool) -> Rounded:
    """Round weight / scale, columns in the factor's order; ``normalised`` is overwritten by the difference d."""
    rows, columns = normalised.shape
    out = Rounded(indices=np.empty((rows, columns), np.uint8), loss=np.zeros(rows, np.float64))
    pivots = np.diagonal(factor.lower).copy()
    for outer in reversed(spans(columns, OUTER)):
        before = _scaled(factor.lower[outer.stop :, outer], pivots[outer], pool)
        within = _scaled(factor.lower[outer, outer], pivots[outer], pool)
        level = _Level(
            within=within, edges=midpoints(lut.codebook), codes=lut.codebook.astype(np.float32), block=block
        )

        def task(span: slice, outer: slice = outer, before: F32 = before, level: _Level = level) -> None:
            values = np.ascontiguousarray(normalised[span, outer].T)
            shift = np.matmul(before.T, normalised[span, outer.stop :].T, out=np.empty_like(values))
            state = _State(values=values, shift=shift)
            level.round(state, slice(0, len(values)))
            normalised[span, outer] = state.values.T
            out.indices[span, outer] = state.indices.T
            out.loss[span] += np.square(pivots[outer]) @ np.square(state.shift, dtype=np.float64)

        pool.run([partial(task, span) for span in even_spans(rows, ROWS)])
    return out


def _scaled(lower: F64, pivots: F64, pool: Pool) -> F32:
    """Return L_ij / L_jj in float32."""
    out = np.empty(lower.shape, np.float32)

    def task(span: slice) -> None:
        out[span] = lower[span] / pivots

    pool.spans(len(lower), OUTER, task)
    return out


class _State:
    """Columns of one task, transposed to (columns, rows) so that a column is contiguous.

    ``values`` turns from w to d = w - q, ``shift`` from the sum over finished columns to target - q.
    """

    __slots__ = ("above", "code", "indices", "shift", "values")

    def __init__(self, *, values: F32, shift: F32) -> None:
        self.values, self.shift = values, shift
        self.indices = np.empty(values.shape, np.uint8)
        self.above = np.empty((CODES - 1, values.shape[1]), np.bool_)
        self.code = np.empty(values.shape[1], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Level:
    within: F32
    edges: F32
    codes: F32
    block: int

    def round(self, state: _State, span: slice) -> None:
        """Round the columns of ``span``, the last first, summing finished ones in ever smaller blocks."""
        size = span.stop - span.start
        if size <= INNER:
            self._columns(state, span)
            return
        step = self.block if size > self.block else INNER
        for start in reversed(range(span.start, span.stop, step)):
            part = slice(start, min(start + step, span.stop))
            done = slice(part.stop, span.stop)
            if done.start < done.stop:
                state.shift[part] += self.within[done, part].T @ state.values[done]
            self.round(state, part)

    def _columns(self, state: _State, span: slice) -> None:
        """Round columns one by one; an index is the number of edges below its target, so a tie falls lower."""
        values, shift, code, edges = state.values, state.shift, state.code, self.edges[:, None]
        counted = state.above.view(np.uint8)
        for j in range(span.stop - 1, span.start - 1, -1):
            target, index = shift[j], state.indices[j]
            target += values[j]
            if j + 1 < span.stop:
                np.dot(self.within[j + 1 : span.stop, j], values[j + 1 : span.stop], out=code)
                target += code
            np.greater(target, edges, out=state.above)
            np.add.reduce(counted, axis=0, out=index)
            self.codes.take(index, out=code, mode="clip")  # only with "clip" is nothing buffered
            target -= code
            values[j] -= code
