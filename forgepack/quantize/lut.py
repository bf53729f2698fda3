"""LUT4: one float16 scale a row, one codebook of 16 float16 values a matrix, one index a weight.

Recipe: the release contract, section 3. A weight is codebook[index]·scale, both float16, multiplied in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError
from forgepack.parallel import Pool

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]

CODES = 16
# 2^64 / golden ratio, odd: multiples of it modulo 2^64 fill the range evenly, whatever their number.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ROW_SPAN = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lut4:
    """The parts of a LUT4 matrix that all its roundings share: ``scale`` (rows,), ``codebook`` (16,) ascending."""

    scale: F16
    codebook: F16

    def normalise(self, weight: F32) -> F32:
        """Return weight / scale."""
        return weight / self.scale.astype(np.float32)[:, None]

    def round(self, normalised: F32, pool: Pool) -> U8:
        """Return the index of the nearest code of each value, and leave the differences in ``normalised``.

        A tie falls to the lower index.
        """
        indices = np.empty(normalised.shape, np.uint8)
        edges, codes = midpoints(self.codebook), self.codebook.astype(np.float32)

        def task(rows: slice) -> None:
            found = np.searchsorted(edges, normalised[rows])
            indices[rows] = found
            normalised[rows] -= codes[found]

        pool.spans(len(normalised), _ROW_SPAN, task)
        return indices


def fit_lut4(weight: F32, *, iterations: int, samples: int, where: str) -> Lut4:
    """Fit scale and codebook of a matrix (rows, columns)."""
    scale = row_scale(weight, where)
    drawn = draw_samples(weight, scale, samples)
    return Lut4(scale=scale, codebook=lloyd(drawn, iterations))


def row_scale(weight: F32, where: str) -> F16:
    """Return s = sqrt(mean_j W²) of each row in float16; a row whose s rounds to 0 gets 1.

    NumericsError when a row's scale overflows float16.
    """
    return to_float16_scale(root_mean_square(weight), where)


def root_mean_square(weight: F32) -> F64:
    """Return sqrt(mean_j W²) of each row."""
    mean = np.empty(len(weight), np.float64)
    for start in range(0, len(weight), _ROW_SPAN):
        part = slice(start, start + _ROW_SPAN)
        mean[part] = np.mean(np.square(weight[part], dtype=np.float64), axis=1)
    return np.sqrt(mean)


def to_float16_scale(scale: F64, where: str) -> F16:
    """Round scales to float16; 0 becomes 1, an overflow is a NumericsError."""
    bad = np.flatnonzero(scale > float(np.finfo(np.float16).max))
    if bad.size:
        raise NumericsError(
            "a row's scale does not fit float16",
            where=f"{where} row {bad[0]}",
            expected=f"at most {float(np.finfo(np.float16).max):.0f}",
            found=f"{scale[bad[0]]:.6g}",
            code="scale-overflow",
        )
    rounded = scale.astype(np.float16)
    rounded[rounded == 0] = 1
    return rounded


def draw_samples(weight: F32, scale: F16, count: int) -> F32:
    """Return at most ``count`` values of weight / scale, sorted: all of them, or an even choice of places.

    Places follow the golden-ratio sequence over the flat matrix: fixed, free of any generator, and never in
    step with the row length.
    """
    if weight.size <= count:
        return np.sort((weight / scale.astype(np.float32)[:, None]).reshape(-1))
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    places = ((steps >> np.uint64(32)) * np.uint64(weight.size)) >> np.uint64(32)
    rows, columns = np.divmod(places.astype(np.int64), weight.shape[1])
    return np.sort(weight[rows, columns] / scale[rows].astype(np.float32))


def lloyd(ordered: F32, iterations: int) -> F16:
    """Return 16 ascending float16 codes for sorted samples: quantile start, then Lloyd's iterations.

    A code that no sample is nearest to keeps its value. Means are taken from float64 prefix sums.
    """
    values = ordered.astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    codes = np.quantile(values, (np.arange(CODES) + 0.5) / CODES)
    for _ in range(iterations):
        edges = np.searchsorted(values, (codes[1:] + codes[:-1]) / 2)
        bounds = np.concatenate([[0], edges, [values.size]])
        counts = np.diff(bounds)
        means = np.diff(sums[bounds]) / np.maximum(counts, 1)
        codes = np.sort(np.where(counts > 0, means, codes))
    return codes.astype(np.float16)


def midpoints(codebook: F16) -> F32:
    """Return the 15 exact float32 boundaries between neighbouring codes."""
    codes = codebook.astype(np.float32)
    return (codes[1:] + codes[:-1]) * np.float32(0.5)
