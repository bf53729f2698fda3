"""Row scales and codebook of a LUT4 matrix for GPTQ: least weighted rounding error, in the format of the release.

Column j counts v_j = L_jj², the weight that GPTQ's own loss gives the column's rounding (``gptq``). Each row starts
at its root mean square s; then every row takes the one of 29 scales s·2^(k/28), |k| <= 14, at which its weights
round best with the present codebook, and the codebook is refined, in turns until no row changes, at most 25 times.
The codebook starts as the optimal one for the histogram of all weights (dynamic programming over its bins); Lloyd's
iterations refine it to their end.

A row is read once, into 512 bins of W/s over ±8 that hold exact sums of v and v·W/s. A code boundary moved to the
next bin's edge then costs the second order of a bin's width, 1/32, over a code's, about 0.2; values beyond ±8 count,
with their exact sums, as one value on each side. Nothing is sampled, so nothing is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.parallel import Pool
from forgepack.quantize.lut import CODES, Lut4, root_mean_square, to_float16_scale

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

MAX_ROUNDS = 25
STEPS = 14
OCTAVE = 28
BINS = 512
PER_UNIT = 32
MAX_LLOYD = 200
_ROWS = 128
# The nearest to 1 first, so that a tie leaves a row at its root mean square.
_EXPONENTS = np.array(sorted(range(-STEPS, STEPS + 1), key=abs), np.float64)
FACTORS: F64 = np.exp2(_EXPONENTS / OCTAVE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """Sums of v (``mass``) and of v·W/s (``moment``) of each row, both (rows, BINS)."""

    mass: F64
    moment: F64

    def points(self, choice: I64) -> tuple[F64, F64]:
        """Return ascending values W/(s·factor) of all rows together, and their weights, for each row's factor."""
        numbers, groups = np.unique(choice, return_inverse=True)
        members = (groups == np.arange(len(numbers))[:, None]).astype(np.float64)
        mass, moment = members @ self.mass, members @ self.moment
        full = mass > 0
        values = (np.divide(moment, mass, where=full, out=moment) / FACTORS[numbers][:, None])[full]
        order = np.argsort(values, kind="stable")
        return values[order], mass[full][order]


def fit_weighted(weight: F32, importance: F64, *, where: str, pool: Pool) -> Lut4:
    """Fit scales and codebook of a matrix (rows, columns) with the weight of each column.

    Rows whose root mean square rounds to 0 in float16 take its smallest value as their scale: no code need be 0, so
    with a scale of 1, the plain recipe's, a row of zeros would come back as the codes nearest to 0, far larger than
    other rows' weights. NumericsError when a scale overflows.
    """
    spread = root_mean_square(weight)
    base = to_float16_scale(spread, where)
    silent = spread.astype(np.float16) == 0
    base[silent] = np.finfo(np.float16).smallest_subnormal
    histogram = fill_histogram(weight, base, importance, pool)
    choice = np.zeros(len(weight), np.int64)
    codes = optimal_codes(*histogram.points(choice))
    for _ in range(MAX_ROUNDS):
        before, choice = choice, choose_factors(histogram, base, codes, pool)
        choice[silent] = 0
        codes = refine_codes(*histogram.points(choice), codes)
        if np.array_equal(before, choice):
            break
    scale = (base.astype(np.float64) * FACTORS[choice]).astype(np.float16)
    return Lut4(scale=scale, codebook=codes.astype(np.float16))


def fill_histogram(weight: F32, base: F16, importance: F64, pool: Pool) -> Histogram:
    """Sort every weight into its row's bins."""
    rows = len(weight)
    out = Histogram(mass=np.empty((rows, BINS)), moment=np.empty((rows, BINS)))
    counted = np.tile(importance, min(rows, _ROWS))
    shift = np.arange(min(rows, _ROWS))[:, None] * BINS

    def task(span: slice) -> None:
        ratio = weight[span] / base[span].astype(np.float32)[:, None]
        count = len(ratio)
        place = np.clip(np.floor(ratio * np.float32(PER_UNIT)) + BINS // 2, 0, BINS - 1).astype(np.int64)
        place += shift[:count]
        flat, v = place.reshape(-1), counted[: ratio.size]
        out.mass[span] = np.bincount(flat, v, count * BINS).reshape(count, BINS)
        out.moment[span] = np.bincount(flat, v * ratio.reshape(-1), count * BINS).reshape(count, BINS)

    pool.spans(rows, _ROWS, task)
    return out


def choose_factors(histogram: Histogram, base: F16, codes: F64, pool: Pool) -> I64:
    """Return for each row the number of the factor with the least error Σ v·(W - s·factor·code)².

    What does not depend on the factor is left out. The scale's own rounding to float16 is counted; a scale that it
    takes to 0 or to infinity is never chosen.
    """
    edges = (codes[1:] + codes[:-1]) / 2
    cuts = np.rint(FACTORS[:, None] * edges * PER_UNIT) + BINS // 2
    table = codes[(cuts[:, :, None] <= np.arange(BINS)).sum(axis=1)].T  # the code of each bin, by factor
    best = np.empty(len(base), np.int64)

    def task(span: slice) -> None:
        wide = base[span].astype(np.float64)[:, None]
        with np.errstate(over="ignore"):
            ratio = (wide * FACTORS).astype(np.float16).astype(np.float64) / wide
        usable = np.isfinite(ratio) & (ratio > 0)
        ratio[~usable] = 0
        error = ratio * (ratio * (histogram.mass[span] @ np.square(table)) - 2 * (histogram.moment[span] @ table))
        best[span] = np.argmin(np.where(usable, error, np.inf), axis=1)

    pool.spans(len(base), 8 * _ROWS, task)
    return best


def optimal_codes(values: F64, weights: F64) -> F64:
    """Return the 16 ascending codes of least Σ weights·(value - code)² for ascending values, by dynamic programming.

    Source: the classical recurrence for 1-D clusters. Time and memory go with the square of the number of values.
    Fewer values than codes repeat the last one.
    """
    count = len(values)
    if count <= CODES:
        return np.concatenate([values, np.full(CODES - count, values[-1])])
    sums = [np.concatenate([[0.0], np.cumsum(weights * values**power)]) for power in (0, 1, 2)]
    mass, moment, square = (part[None, :] - part[:, None] for part in sums)
    ahead = np.triu(np.ones((count + 1, count + 1), np.bool_), 1)
    cost = np.where(ahead, square - moment**2 / np.where(ahead, mass, 1.0), np.inf)
    least, chosen = cost[0].copy(), []
    for _ in range(1, CODES):
        total = least[:, None] + cost
        chosen.append(np.argmin(total, axis=0))
        least = total[chosen[-1], np.arange(count + 1)]
    bounds = [count]
    for arguments in reversed(chosen):
        bounds.append(int(arguments[bounds[-1]]))
    ends = np.array([0, *reversed(bounds)])
    codes: F64 = np.diff(sums[1][ends]) / np.diff(sums[0][ends])
    return codes


def refine_codes(values: F64, weights: F64, codes: F64) -> F64:
    """Return Lloyd's fixed point from ``codes`` on; a code that no value is nearest to keeps its place."""
    mass, moment = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights, weights * values))
    for _ in range(MAX_LLOYD):
        edges = np.searchsorted(values, (codes[1:] + codes[:-1]) / 2)
        bounds = np.concatenate([[0], edges, [len(values)]])
        counts = np.diff(mass[bounds])
        means = np.diff(moment[bounds]) / np.where(counts > 0, counts, 1.0)
        found = np.sort(np.where(counts > 0, means, codes))
        if np.array_equal(found, codes):
            break
        codes = found
    return codes
