"""What a replay says: acceptance with its error, and agreement of two drafters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

BOOTSTRAP_ROUNDS = 1000
BOOTSTRAP_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Accepted drafts a block, 0..B-1. ``standard_error`` is a bootstrap over sequences: blocks of one are alike.

    ``at_least[i]`` is P(m >= i+1). Tokens per target call = mean + 1; draft acceptance = mean / (B-1).
    """

    mean: float
    standard_error: float
    at_least: tuple[float, ...]
    blocks: int
    sequences: int


def summarise(accepted: Sequence[I64], drafts: int) -> Acceptance:
    """Summarise the accepted drafts of each sequence's blocks, ``drafts`` = B-1 a block; no blocks give zeros."""
    flat = np.concatenate([np.zeros(0, np.int64), *accepted])
    return Acceptance(
        mean=float(flat.mean()) if flat.size else 0.0,
        standard_error=_bootstrap(accepted),
        at_least=tuple(float(np.mean(flat >= n)) if flat.size else 0.0 for n in range(1, drafts + 1)),
        blocks=int(flat.size),
        sequences=len(accepted),
    )


def _bootstrap(accepted: Sequence[I64]) -> float:
    """Return the standard deviation of the mean over resampled sequences; seeded, from a frozen generator."""
    counts = np.array([a.size for a in accepted if a.size], np.float64)
    sums = np.array([a.sum() for a in accepted if a.size], np.float64)
    if counts.size < 2:
        return 0.0
    # RandomState's stream is frozen by NumPy's compatibility policy; Generator's is not.
    chosen = np.random.RandomState(BOOTSTRAP_SEED).randint(0, counts.size, (BOOTSTRAP_ROUNDS, counts.size))
    return float(np.std(sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)))


def agreement(left: Sequence[I64], right: Sequence[I64]) -> float:
    """Return the share of blocks whose drafts (n, B-1) are all equal; both lists are on the same schedule."""
    equal = [np.all(a == b, axis=1) for a, b in zip(left, right, strict=True)]
    flat = np.concatenate([np.zeros(0, np.bool_), *equal])
    return float(flat.mean()) if flat.size else 1.0
