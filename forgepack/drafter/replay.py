"""Replay of recorded sequences: greedy speculative decoding without the target.

The walk goes over the stored tokens, which the target generated greedily, so counting the drafts that equal the
next stored tokens gives exactly the acceptance of greedy speculative decoding. Blocks are counted as the recorder's
own replay counts them: a block must be inside the stored tokens, and the walk ends before the first one whose commit
(p + m + 1) runs past the stored feature rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.traces import TraceSequence, TraceSet
from forgepack.drafter.batch import SequenceBlocks, make_batch
from forgepack.drafter.context import fuse
from forgepack.drafter.draft import Drafter
from forgepack.drafter.forward import Forward, KeyValue
from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

# Positions drafted ahead of a walk that has left the recorded schedule: fewer passes over the weights.
LOOK_AHEAD = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedSequence:
    """The walk over one sequence: where its blocks start, how many drafts each accepts, and the drafts."""

    positions: I64
    accepted: I64
    drafts: I64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The walks over all sequences, in the traces' order."""

    sequences: tuple[ReplayedSequence, ...]

    @property
    def schedule(self) -> list[I64]:
        """Start positions of each sequence's blocks."""
        return [s.positions for s in self.sequences]

    @property
    def accepted(self) -> list[I64]:
        """Accepted drafts of each sequence's blocks."""
        return [s.accepted for s in self.sequences]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceDrafter:
    """A drafter over one trace set: fused context and every layer's ring are computed once and kept.

    Memory: rows x (hidden + layers x 2 x kv width) float32; 0.7 GB for 11,500 rows at full size.
    """

    drafter: Drafter
    traces: TraceSet
    contexts: list[F32]
    ring: list[list[KeyValue]]
    pool: Pool

    def drafts_at(self, schedule: Sequence[I64]) -> list[I64]:
        """Return the drafts (n, B-1) of each sequence at the given start positions (n,)."""
        batch = make_batch(
            [
                SequenceBlocks(context=self.contexts[s.index], positions=at, anchors=s.tokens[at].astype(np.int64))
                for s, at in zip(self.traces.sequences, schedule, strict=True)
            ]
        )
        flat = self.drafter.drafts(batch, self.pool, self.ring)
        return [flat[a:b] for a, b in zip(batch.bounds, batch.bounds[1:], strict=False)]

    def replay(self) -> ReplayResult:
        """Walk every sequence with this drafter's own drafts."""
        walks = [_Walk(s, self.drafter.geometry.block) for s in self.traces.sequences]
        wanted = [s.positions for s in self.traces.sequences]
        while any(at.size for at in wanted):
            for walk, at, drafts in zip(walks, wanted, self.drafts_at(wanted), strict=True):
                walk.learn(at, drafts)
            wanted = [walk.advance() for walk in walks]
        return ReplayResult(sequences=tuple(walk.result() for walk in walks))


def open_traces(drafter: Drafter, traces: TraceSet, pool: Pool) -> TraceDrafter:
    """Compute context and rings of all sequences; each sequence's features are read once and dropped."""
    contexts = fuse(drafter.weights, (traces.features(s.index) for s in traces.sequences), pool)
    forward = Forward(weights=drafter.weights, mask_scale=drafter.mask_scale, pool=pool)
    ring = [forward.ring(layer, contexts) for layer in range(drafter.geometry.layers)]
    return TraceDrafter(drafter=drafter, traces=traces, contexts=contexts, ring=ring, pool=pool)


def count_accepted(drafts: I64, tokens: npt.NDArray[np.integer], positions: I64) -> I64:
    """Return the length of the matching prefix: drafts (n, B-1) against the stored tokens after each position."""
    truth = tokens[positions[:, None] + 1 + np.arange(drafts.shape[1])]
    matches: I64 = np.cumprod(drafts == truth, axis=1, dtype=np.int64)
    return np.asarray(matches.sum(axis=1), np.int64)


class _Walk:
    """One sequence's walk, which stops wherever the next block has not been drafted yet."""

    def __init__(self, sequence: TraceSequence, block: int) -> None:
        self._sequence, self._block = sequence, block
        self._known: dict[int, tuple[int, I64]] = {}
        self._at, self._path = sequence.plen, list[int]()

    def learn(self, positions: I64, drafts: I64) -> None:
        counts = count_accepted(drafts, self._sequence.tokens, positions)
        for position, count, row in zip(positions, counts, drafts, strict=True):
            self._known[int(position)] = int(count), row

    def advance(self) -> I64:
        """Go on as far as known blocks reach; return the positions to draft next, none at the end."""
        while self._fits(self._at) and self._at in self._known:
            end = self._at + self._known[self._at][0] + 1
            if end > self._sequence.rows:
                return np.zeros(0, np.int64)
            self._path.append(self._at)
            self._at = end
        ahead = range(self._at, self._at + LOOK_AHEAD)
        return np.array([p for p in ahead if self._fits(p) and p not in self._known], np.int64)

    def _fits(self, position: int) -> bool:
        return position + self._block <= len(self._sequence.tokens) and position <= self._sequence.rows

    def result(self) -> ReplayedSequence:
        drafts = [self._known[p][1] for p in self._path]
        return ReplayedSequence(
            positions=np.array(self._path, np.int64),
            accepted=np.array([self._known[p][0] for p in self._path], np.int64),
            drafts=np.array(drafts, np.int64).reshape(len(drafts), self._block - 1),
        )
