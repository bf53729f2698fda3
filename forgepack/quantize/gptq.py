"""GPTQ: columns rounded one after another, each to the code nearest to its target, which makes up for all before.

For H = L·Lᵀ with columns in ascending order (``factor``), the weighted error of a row d = w - q is
d·H·dᵀ = Σ_j (L_jj·(target_j - q_j))² with target_j = w_j + Σ_{i>j} d_i·L_ij/L_jj. Starting at the last column, each
q_j is the code nearest to its target. The sum of these squares is the error that the rounding leaves.

Speed: the sums over all finished columns are one product for 1024 columns at once; inside, levels of 128 and 16
columns keep the working set in cache, and only 16 columns are summed one by one. Rows are independent: 512 of them
are a task. Products are float32, the factor is float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.parallel import Pool, spans
from forgepack.quantize.factor import Factor
from forgepack.quantize.lut import Lut4, midpoints

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]

OUTER = 1024
INNER = 16
ROWS = 512


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
            shift = normalised[span, outer.stop :] @ before
            values = np.ascontiguousarray(normalised[span, outer].T)
            state = _State(values=values, shift=np.ascontiguousarray(shift.T))
            level.round(state, slice(0, len(values)))
            normalised[span, outer] = state.values.T
            out.indices[span, outer] = state.indices.T
            out.loss[span] += np.square(pivots[outer]) @ np.square(state.shift, dtype=np.float64)

        pool.spans(rows, ROWS, task)
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

    __slots__ = ("indices", "shift", "values")

    def __init__(self, *, values: F32, shift: F32) -> None:
        self.values, self.shift = values, shift
        self.indices = np.empty(values.shape, np.uint8)


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
        values, shift = state.values, state.shift
        for j in range(span.stop - 1, span.start - 1, -1):
            target = shift[j]
            target += values[j]
            if j + 1 < span.stop:
                target += self.within[j + 1 : span.stop, j] @ values[j + 1 : span.stop]
            index = np.searchsorted(self.edges, target)
            state.indices[j] = index
            code = self.codes[index]
            target -= code
            values[j] -= code
