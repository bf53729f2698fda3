"""Acceptance and agreement by context position: whether the ring of W rows caps them at long context.

A block at position p has p tokens of context, of which the drafter sees the last W-1 at most. Edges are W/4, W/2, W
and then doubled, so no bucket mixes blocks that see their whole context with blocks that do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from forgepack.drafter.statistics import Estimate, Tally, difference, estimate

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Blocks that start at positions low..high-1; ``value`` is their mean."""

    low: int
    high: int
    blocks: int
    value: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class RingEffect:
    """Blocks whose context no longer fits the ring against those whose context does: both means, and difference.

    It shows that something changes where the ring is full; texts change along a sequence too.
    """

    whole: Bucket
    beyond: Bucket
    change: Estimate


def bucket_edges(window: int, longest: int) -> tuple[int, ...]:
    """Return the edges of the buckets for positions 0..longest: 0, W/4, W/2, W, 2W, 4W, … past ``longest``."""
    edges = [0, *sorted({max(1, window // 4), max(1, window // 2), window})]
    while edges[-1] <= longest:
        edges.append(edges[-1] * 2)
    return tuple(edges)


def by_position(values: Sequence[npt.NDArray[np.integer]], positions: Sequence[I64], window: int) -> list[Bucket]:
    """Return the buckets that hold blocks; ``values`` and ``positions`` are each sequence's (blocks,)."""
    longest = max((int(at.max()) for at in positions if at.size), default=0)
    edges = bucket_edges(window, longest)
    buckets = (_bucket(values, positions, low, high) for low, high in pairwise(edges))
    return [bucket for bucket in buckets if bucket.blocks]


def ring_effect(
    values: Sequence[npt.NDArray[np.integer]], positions: Sequence[I64], window: int
) -> RingEffect | None:
    """Compare blocks on both sides of position W; None when one side has none."""
    longest = max((int(at.max()) for at in positions if at.size), default=0)
    whole = _bucket(values, positions, 0, window)
    beyond = _bucket(values, positions, window, longest + 1)
    if not whole.blocks or not beyond.blocks:
        return None
    change = difference(_within(values, positions, window, longest + 1), _within(values, positions, 0, window))
    return RingEffect(whole=whole, beyond=beyond, change=change)


def _bucket(values: Sequence[npt.NDArray[np.integer]], positions: Sequence[I64], low: int, high: int) -> Bucket:
    found = _within(values, positions, low, high)
    return Bucket(low=low, high=high, blocks=found.blocks, value=estimate(found))


def _within(values: Sequence[npt.NDArray[np.integer]], positions: Sequence[I64], low: int, high: int) -> Tally:
    chosen = [(at >= low) & (at < high) for at in positions]
    sums = np.array([v[keep].sum() for v, keep in zip(values, chosen, strict=True)], np.float64)
    return Tally(sums=sums, counts=np.array([keep.sum() for keep in chosen], np.float64))
