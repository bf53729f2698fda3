"""Damped Cholesky factorization of a Hessian, in place, in float64, tile by tile.

GPTQ is usually written with U, the upper Cholesky factor of H⁻¹. With the columns in reverse order H = L·Lᵀ gives
U = L⁻¹ (reversed), so that the update of a later column j, -Σ err_i·U_ij/U_ii, equals Σ_{i done} D_i·L_ij/L_jj for
D = W - Q: no inverse is ever formed. Here the columns stand in ASCENDING order of diag(H) and GPTQ starts at the
last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, even_spans, spans

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

BLOCK = 512
ROWS = 2560
MAX_DAMPING = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Factor:
    """L, in the lower triangle of what was H (the strict upper one still holds H).

    ``damping`` is the share of the mean live diagonal that was added, ``ridge`` that amount itself; ``dead`` marks
    columns that no row ever fed, whose diagonal was set to 1.
    """

    lower: F64
    damping: float
    ridge: float
    dead: npt.NDArray[np.bool_]


def ascending_order(H: F64) -> I64:
    """Return the columns by ascending diagonal; equal ones with the lower index last, where GPTQ starts."""
    return np.argsort(-np.diagonal(H), kind="stable")[::-1].astype(np.int64)


def factorize(H: F64, *, damping: float, pool: Pool, where: str) -> Factor:
    """Factorize H + ridge in place, H symmetric and in ascending order.

    Where that is not positive definite in float64, the damping is raised tenfold, to at most 1: rows fewer than
    columns need no more than the plain damping, but strongly correlated outlier channels may. The strict upper
    triangle restores H for each trial. NumericsError when even the last one fails.
    """
    diagonal = np.diagonal(H).copy()
    dead = diagonal <= 0
    live = diagonal[~dead]
    mean = float(live.mean()) if live.size else 0.0
    while True:
        ridge = damping * mean
        np.fill_diagonal(H, np.where(dead, 1.0, diagonal + ridge))
        if _cholesky(H, pool):
            return Factor(lower=H, damping=damping, ridge=ridge, dead=dead)
        if damping * 10 > MAX_DAMPING * 1.001:
            raise NumericsError(
                "a Hessian is not positive definite",
                where=where,
                expected=f"positive definite with at most {MAX_DAMPING:g} of its mean diagonal added",
                found=f"diagonal {diagonal.min():.3g}..{diagonal.max():.3g}",
                hint="look for a few feature channels that hold nearly all energy, or add calibration rows",
                code="not-positive-definite",
            )
        damping *= 10
        _restore(H, pool)


def _restore(H: F64, pool: Pool) -> None:
    """Copy the strict upper triangle over the lower one."""

    def task(span: slice) -> None:
        for other in spans(span.start, BLOCK):
            H[span, other] = H[other, span].T
        tile = H[span, span]
        lower = np.tril_indices(len(tile), -1)
        tile[lower] = tile.T[lower]

    pool.spans(H.shape[0], BLOCK, task)


def _cholesky(H: F64, pool: Pool) -> bool:
    """Factorize the lower triangle in place, left-looking; False when a pivot is not positive."""
    for column in spans(H.shape[0], BLOCK):
        corner = H[column, column]
        upper, kept = np.triu_indices(len(corner), 1), corner.copy()
        if column.start:
            pool.run([partial(_update, H, rows, column) for rows in _row_tasks(H, column.start)])
        try:
            factor = np.linalg.cholesky(corner)
        except np.linalg.LinAlgError:
            corner[upper] = kept[upper]
            return False
        factor[upper] = kept[upper]
        corner[...] = factor
        if not np.isfinite(np.diagonal(factor)).all():
            return False
        pool.run([partial(_solve, H, rows, column, factor) for rows in _row_tasks(H, column.stop)])
    return True


def _row_tasks(H: F64, start: int) -> list[slice]:
    return even_spans(H.shape[0], ROWS, start=start)


def _update(H: F64, rows: slice, column: slice) -> None:
    """Subtract what the finished columns contribute."""
    tile = H[rows, column]
    np.subtract(tile, H[rows, : column.start] @ H[column, : column.start].T, out=tile)


def _solve(H: F64, rows: slice, column: slice, corner: npt.NDArray[np.floating]) -> None:
    """Replace rows A by A·L⁻ᵀ, L in the lower triangle of ``corner``: L·Xᵀ = Aᵀ on Fortran's view of both."""
    from scipy.linalg.blas import dtrsm

    right = np.ascontiguousarray(H[rows, column])
    H[rows, column] = dtrsm(1.0, corner.T, right.T, lower=0, trans_a=1, overwrite_b=1).T
