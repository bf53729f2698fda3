"""What a replay says: acceptance and agreement with their errors, and the difference of two drafters.

Blocks of one sequence are alike, so every error and interval resamples whole sequences, and all drafters of a run
(and of two reports over the same traces) are resampled alike: differences are paired. The resamples are seeded, from
a generator whose stream is frozen, so the same counts give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Interval = tuple[float, float]

BOOTSTRAP_ROUNDS = 2000
BOOTSTRAP_SEED = 0
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """One quantity by sequence: its sum over some blocks of each, and how many blocks these are; float64 (n,)."""

    sums: F64
    counts: F64

    @property
    def blocks(self) -> int:
        """Number of blocks of all sequences."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean over all blocks, 0 where there are none."""
        return float(self.sums.sum() / self.counts.sum()) if self.blocks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over blocks, its standard error, and its interval (95%); None below two sequences with blocks."""

    mean: float
    standard_error: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Accepted drafts per block, 0..B-1. ``standard_error`` is a bootstrap over sequences: blocks of one are alike.

    ``at_least[i]`` is P(m >= i+1), ``histogram[m]`` the number of blocks that accept exactly m. Tokens per target
    call = mean + 1; draft acceptance = mean / (B-1).
    """

    mean: float
    standard_error: float
    interval: Interval | None
    at_least: tuple[float, ...]
    histogram: tuple[int, ...]
    blocks: int
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often two drafters draft alike, on one schedule of blocks.

    ``blocks`` is the share of blocks whose drafts are all equal, with its error; ``at_least[i]`` the share whose
    first i+1 drafts are all equal, so that the last one is ``blocks.mean``.
    """

    blocks: Estimate
    at_least: tuple[float, ...]


def tally(values: Sequence[npt.NDArray[np.integer] | npt.NDArray[np.bool_]]) -> Tally:
    """Count each sequence's values (blocks,)."""
    sums = np.array([v.sum() for v in values], np.float64)
    return Tally(sums=sums, counts=np.array([v.size for v in values], np.float64))


def estimate(found: Tally) -> Estimate:
    """Return the mean over all blocks with its bootstrap error over sequences."""
    busy = found.counts > 0
    sums, counts = found.sums[busy], found.counts[busy]
    if counts.size < 2:
        return Estimate(mean=found.mean, standard_error=0.0, interval=None)
    chosen = _resamples(counts.size)
    return _estimate(found.mean, sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1), counts.size)


def difference(left: Tally, right: Tally, *, confidence: float = CONFIDENCE) -> Estimate:
    """Return left's mean minus right's, both of the same sequences in the same order, resampled together."""
    busy = (left.counts > 0) | (right.counts > 0)
    pairs = [(t.sums[busy], t.counts[busy]) for t in (left, right)]
    mean, sequences = left.mean - right.mean, int(busy.sum())
    if sequences < 2 or not left.blocks or not right.blocks:
        return Estimate(mean=mean, standard_error=0.0, interval=None)
    chosen = _resamples(sequences)
    with np.errstate(invalid="ignore"):
        means = [sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1) for sums, counts in pairs]
    drawn = means[0] - means[1]
    # A resample without any block on one side says nothing: few sequences reach into both.
    return _estimate(mean, drawn[np.isfinite(drawn)], sequences, confidence)


def summarise(accepted: Sequence[I64], drafts: int) -> Acceptance:
    """Summarise the accepted drafts of each sequence's blocks, ``drafts`` = B-1 a block; no blocks give zeros."""
    flat = np.concatenate([np.zeros(0, np.int64), *accepted])
    found = estimate(tally(accepted))
    return Acceptance(
        mean=found.mean,
        standard_error=found.standard_error,
        interval=found.interval,
        at_least=_at_least(flat, drafts),
        histogram=tuple(int(n) for n in np.bincount(flat, minlength=drafts + 1)),
        blocks=int(flat.size),
        sequences=len(accepted),
    )


def equal_drafts(left: Sequence[I64], right: Sequence[I64]) -> list[I64]:
    """Return for each block how many drafts from the first on are equal; both are (n, B-1) on one schedule."""
    return [
        np.asarray(np.cumprod(a == b, axis=1, dtype=np.int64).sum(axis=1), np.int64)
        for a, b in zip(left, right, strict=True)
    ]


def agree(equal: Sequence[I64], drafts: int) -> Agreement:
    """Summarise what ``equal_drafts`` counted, ``drafts`` = B-1 a block; no blocks at all agree."""
    flat = np.concatenate([np.zeros(0, np.int64), *equal])
    if not flat.size:
        whole = Estimate(mean=1.0, standard_error=0.0, interval=None)
        return Agreement(blocks=whole, at_least=(1.0,) * drafts)
    return Agreement(blocks=estimate(tally([e == drafts for e in equal])), at_least=_at_least(flat, drafts))


def _at_least(flat: I64, drafts: int) -> tuple[float, ...]:
    return tuple(float(np.mean(flat >= n)) if flat.size else 0.0 for n in range(1, drafts + 1))


def _resamples(sequences: int) -> I64:
    """Return which sequences each resample takes, int64 (rounds, sequences): the same for the same number."""
    # RandomState's stream is frozen by NumPy's compatibility policy; Generator's is not.
    drawn = np.random.RandomState(BOOTSTRAP_SEED).randint(0, sequences, (BOOTSTRAP_ROUNDS, sequences))
    return np.asarray(drawn, np.int64)


def _estimate(mean: float, drawn: F64, sequences: int, confidence: float = CONFIDENCE) -> Estimate:
    if drawn.size < 2:
        return Estimate(mean=mean, standard_error=0.0, interval=None)
    tail = _tail(sequences, confidence)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(mean=mean, standard_error=float(np.std(drawn)), interval=(float(low), float(high)))


def _tail(sequences: int, confidence: float) -> float:
    """Return the share of resamples beyond each end of an interval.

    Plain percentiles are too narrow for few sequences; these are widened as Student's t is against the normal
    (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 5.3).
    """
    from scipy.special import ndtr, stdtrit

    wide = np.sqrt(sequences / (sequences - 1)) * stdtrit(sequences - 1, (1 + confidence) / 2)
    return float(ndtr(-wide))
