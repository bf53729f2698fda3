"""Blocks to draft, grouped by sequence: every block of every sequence goes through a layer at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from forgepack.errors import InternalError, NumericsError

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class TokenRows(Protocol):
    """The target's embedding table."""

    def table(self) -> npt.NDArray[np.float16]:
        """Return the float16 table (vocabulary, hidden), best as a memory map."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceBlocks:
    """Blocks of one sequence: their start positions, and the token (the anchor) at each start.

    ``context`` is the fused context of the sequence, (rows, hidden) float32, row t for position t. A block at p
    sees rows p-W+1..p-1 alone, so ``context`` must reach row p-1.
    """

    context: F32
    positions: I64
    anchors: I64

    def __post_init__(self) -> None:
        if self.positions.size and int(self.positions.max()) > len(self.context):
            raise InternalError("a block starts behind the end of its context", found=str(self.positions.max()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockBatch:
    """All blocks of a run. ``bounds[i]`` is where sequence i's blocks begin; the last bound is their number."""

    sequences: tuple[SequenceBlocks, ...]
    bounds: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.bounds[-1]

    @property
    def positions(self) -> I64:
        """Start position of every block, int64 (blocks,)."""
        return np.concatenate([np.zeros(0, np.int64), *(s.positions for s in self.sequences)])

    @property
    def anchors(self) -> I64:
        """Anchor token of every block, int64 (blocks,)."""
        return np.concatenate([np.zeros(0, np.int64), *(s.anchors for s in self.sequences)])


def make_batch(sequences: Sequence[SequenceBlocks]) -> BlockBatch:
    """Join sequences to a batch, in the given order."""
    counts = [0, *(s.positions.size for s in sequences)]
    return BlockBatch(sequences=tuple(sequences), bounds=tuple(int(n) for n in np.cumsum(counts)))


def embed(
    batch: BlockBatch, embedding: TokenRows, *, mask_token: int, block: int, mask_row: F16 | None = None
) -> F32:
    """Return the blocks' input rows, (blocks, block, hidden): the anchor's embedding, then the mask token's.

    ``mask_row`` (hidden,), where given, takes the place of the mask token's row: a package holds its own.
    NumericsError names the token whose row is not finite.
    """
    table = embedding.table()
    anchors = np.asarray(table[batch.anchors], np.float32)
    mask = np.asarray(table[mask_token] if mask_row is None else mask_row, np.float32)
    require_finite_rows(anchors, batch.anchors)
    require_finite_rows(mask[None], np.array([mask_token]))
    out = np.empty((batch.blocks, block, table.shape[1]), np.float32)
    out[:, 0] = anchors
    out[:, 1:] = mask
    return out


def require_finite_rows(rows: npt.NDArray[np.floating], tokens: I64) -> None:
    """Raise NumericsError for the first row of a table, of those of ``tokens`` (n, hidden), that is not finite."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise NumericsError(
            "a token's embedding is not finite",
            where=f"the target's embedding: row {tokens[bad[0]]}",
            hint="fetch the target again, or name the folder that it is in",
            code="nonfinite",
        )
