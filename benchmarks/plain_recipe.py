"""The plain recipe of the release contract, section 3, written straight down, to compare quality with.

Row scales are root mean squares in float16; the codebook is Lloyd's on at most 65,536 values of W/s, unweighted, from
quantiles, 40 iterations; GPTQ takes the columns by descending diag(H), adds 1% of the mean diagonal, sets a dead
diagonal to 1, factorizes in float64 and updates in blocks of 128. Nothing here is shared with the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

DAMPING = 0.01
BLOCK = 128
ITERATIONS = 40
SAMPLES = 65_536
CODES = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlainFactor:
    """Columns by descending diagonal, and U in float32: upper, H⁻¹ = UᵀU."""

    order: I64
    upper: F32


def plain_factor(H: F64) -> PlainFactor:
    """Return the factor of a Hessian (n, n), which is read, not changed; one float64 copy is made, one float32."""
    from scipy.linalg import lapack

    diagonal = np.diagonal(H)
    order = np.argsort(-diagonal, kind="stable")
    work = H[np.ix_(order, order)].T  # Fortran's order without a second copy: H is symmetric
    sorted_diagonal = diagonal[order]
    dead = sorted_diagonal <= 0
    damped = np.where(dead, 1.0, sorted_diagonal) + DAMPING * sorted_diagonal.mean()
    np.fill_diagonal(work, damped)
    work, info = lapack.dpotrf(work, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(f"not positive definite at {info}")
    work, _ = lapack.dpotri(work, lower=1, overwrite_c=1)
    # The lower triangle of H⁻¹ as Fortran is the upper one as C, and it is factorized as the lower of its transpose.
    lower, info = lapack.dpotrf(work, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(f"the inverse is not positive definite at {info}")
    upper = lower.T.astype(np.float32)
    for j in range(1, len(upper)):
        upper[j, :j] = 0
    return PlainFactor(order=order, upper=upper)


def plain_scale(weight: F32) -> F16:
    """Return each row's root mean square in float16, 1 where that is 0."""
    mean = np.mean(np.square(weight, dtype=np.float64), axis=1)
    scale: F16 = np.sqrt(mean).astype(np.float16)
    scale[scale == 0] = 1
    return scale


def plain_codebook(normalised: F32) -> F16:
    """Return 16 codes by Lloyd's iterations on an even sample."""
    flat = normalised.reshape(-1)
    values = flat[:: max(1, -(-flat.size // SAMPLES))].astype(np.float64)
    codes: F64 = np.quantile(values, (np.arange(CODES) + 0.5) / CODES)
    for _ in range(ITERATIONS):
        index = np.searchsorted((codes[1:] + codes[:-1]) / 2, values)
        counts = np.bincount(index, minlength=CODES)
        sums = np.bincount(index, weights=values, minlength=CODES)
        codes = np.sort(np.where(counts > 0, sums / np.maximum(counts, 1), codes))
    result: F16 = codes.astype(np.float16)
    return result


def plain_gptq(weight: F32, factor: PlainFactor) -> F32:
    """Return the dequantized matrix (rows, n): scale times code of each weight."""
    scale = plain_scale(weight).astype(np.float32)[:, None]
    work = (weight / scale)[:, factor.order]
    codes = plain_codebook(weight / scale).astype(np.float32)
    edges = (codes[1:] + codes[:-1]) / 2
    out = np.empty_like(work)
    for start in range(0, work.shape[1], BLOCK):
        stop = min(start + BLOCK, work.shape[1])
        errors = np.empty((work.shape[0], stop - start), np.float32)
        for j in range(start, stop):
            column = work[:, j]
            out[:, j] = codes[np.searchsorted(edges, column)]
            errors[:, j - start] = (column - out[:, j]) / factor.upper[j, j]
            work[:, j:stop] -= np.outer(errors[:, j - start], factor.upper[j, j:stop])
        work[:, stop:] -= errors @ factor.upper[start:stop, stop:]
    result = np.empty_like(out)
    result[:, factor.order] = out
    result *= scale
    return result
