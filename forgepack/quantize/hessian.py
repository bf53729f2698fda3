"""H = XᵀX / N of the rows that feed a matrix, and quadratic forms in it.

Accuracy: a tile is a float32 product over at most 1024 rows, added to float64. Its rounding error relative to
sqrt(H_ii·H_jj) is then about sqrt(1024)·2⁻²⁴ = 1.9e-6 whatever the number of rows, where one float32 sum over
20,000 rows would reach 8e-6. The damping, 1% of the mean diagonal, stays above the error while no channel holds more
than about 5,000 times the mean energy; the factorization raises it where even that is too little. float64 products
would cost twice the time.

Memory: one float64 copy, (n, n); ``fc`` at full size is 5.2 GB.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError
from forgepack.parallel import Pool, spans

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

TILE = 1024
PANEL = 4096
_ROWS = 1024


@dataclass(slots=True)
class Gram:
    """The sum XᵀX (upper tiles filled until ``mirror``) and the number of rows in it."""

    total: F64
    rows: int = 0

    def add(self, panel: F32, pool: Pool) -> None:
        """Add the rows of a panel (rows, n)."""
        columns = spans(self.total.shape[0], TILE)
        pairs = [(a, b) for a in columns for b in columns if a.start <= b.start]
        pool.run([partial(_add_tile, self.total, panel, a, b) for a, b in pairs])
        self.rows += len(panel)

    def mirror(self, pool: Pool, where: str) -> None:
        """Fill the lower tiles from the upper ones; NumericsError when a sum is not finite."""
        if not np.isfinite(np.diagonal(self.total)).all():
            column = int(np.argmax(~np.isfinite(np.diagonal(self.total))))
            raise NumericsError("activations overflow", where=f"{where}: column {column}", code="nonfinite")

        def task(span: slice) -> None:
            for other in spans(span.start, TILE):
                self.total[span, other] = self.total[other, span].T

        pool.spans(self.total.shape[0], TILE, task)


def _add_tile(total: F64, panel: F32, left: slice, right: slice) -> None:
    tile = total[left, right]
    product = np.empty(tile.shape, np.float32)
    for rows in spans(len(panel), _ROWS):
        np.matmul(panel[rows, left].T, panel[rows, right], out=product)
        np.add(tile, product, out=tile)


def new_gram(width: int) -> Gram:
    """Return an empty sum for rows of ``width`` values."""
    return Gram(total=np.zeros((width, width), np.float64))


def permute(H: F64, order: I64) -> None:
    """Reorder rows and columns of a symmetric matrix in place: H becomes H[order][:, order].

    Row cycles are followed with one row of extra memory, then each row is reordered by itself.
    """
    done = np.zeros(len(order), np.bool_)
    for start in range(len(order)):
        if done[start]:
            continue
        kept, at = H[start].copy(), start
        while not done[at]:
            done[at] = True
            source = int(order[at])
            H[at] = kept if source == start else H[source]
            at = source
    for row in H:
        row[:] = row[order]


def quadratic(difference: F32, H: F64, pool: Pool) -> F64:
    """Return d H dᵀ of each row d of ``difference`` (rows, n), float64 (rows,).

    Only upper tiles of H are read: the lower ones count twice through them. Products are float32.
    """
    rows = spans(len(difference), TILE)
    columns = spans(H.shape[0], TILE)
    out = np.zeros(len(difference), np.float64)

    def task(span: slice, right: slice, tiles: F32) -> None:
        product = difference[span, : right.stop] @ tiles
        out[span] += np.einsum("ij,ij->i", product, difference[span, right], dtype=np.float64)

    for right in columns:
        tiles = H[: right.stop, right].astype(np.float32)
        tiles[: right.start] *= 2
        pool.run([partial(task, span, right, tiles) for span in rows])
    return out


def squared_outputs(weight: F32, panels: Iterable[F32], pool: Pool) -> float:
    """Return ‖weight·x‖² summed over all rows x of the panels, in float64."""
    total = 0.0
    for panel in panels:
        parts = np.zeros(len(spans(len(weight), TILE)), np.float64)

        def task(span: slice, panel: F32 = panel, parts: F64 = parts) -> None:
            product = weight[span] @ panel.T
            parts[span.start // TILE] = np.einsum("ij,ij->", product, product, dtype=np.float64)

        pool.spans(len(weight), TILE, task)
        total += float(parts.sum())
    return total
