"""GPTQ as it is usually written: the inverse Hessian's Cholesky factor, one column at a time, all in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def naive_gptq(weight: F64, hessian: F64, codes: F64, *, damping: float) -> npt.NDArray[np.uint8]:
    """Return the indices (rows, columns) of weights in units of their scales; ties to the lower code."""
    H, W = hessian.copy(), weight.copy()
    dead = np.diagonal(H) == 0
    mean = np.diagonal(H)[~dead].mean() if not dead.all() else 0.0
    H[np.diag_indices_from(H)] += np.where(dead, 1.0, damping * mean)
    order = np.argsort(-np.diagonal(hessian), kind="stable")
    W, H = W[:, order], H[order][:, order]
    upper = np.linalg.cholesky(np.linalg.inv(H)).T
    indices = np.empty(W.shape, np.uint8)
    for j in range(W.shape[1]):
        indices[:, j] = np.argmin(np.abs(W[:, j, None] - codes), axis=1)
        error = (W[:, j] - codes[indices[:, j]]) / upper[j, j]
        W[:, j:] -= error[:, None] * upper[j, j:]
    out = np.empty_like(indices)
    out[:, order] = indices
    return out


def correlated_rows(rng: np.random.Generator, rows: int, columns: int) -> npt.NDArray[np.float32]:
    """Return rows like a model's activations: few strong directions, noise, loud channels."""
    mix = rng.standard_normal((max(2, columns // 6), columns))
    x = rng.standard_normal((rows, len(mix))) @ mix + 0.2 * rng.standard_normal((rows, columns))
    return (x * np.exp(rng.standard_normal(columns))).astype(np.float32)
