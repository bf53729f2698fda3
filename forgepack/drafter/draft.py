"""A drafter ready to draft: weights, the target's head and embedding, and the mask scale it is deployed with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forgepack.drafter.batch import BlockBatch, TokenRows, embed
from forgepack.drafter.forward import Forward, KeyValue
from forgepack.drafter.head import Head, best_candidates
from forgepack.drafter.linear import multiply
from forgepack.drafter.selector import select
from forgepack.drafter.weights import HIDDEN_PROJECTION, DrafterWeights
from forgepack.errors import NumericsError
from forgepack.geometry import Geometry
from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafter:
    """Everything that turns context rows and an anchor into B-1 drafted tokens.

    ``mask_row``, where given, takes the place of the mask token's row of ``embedding``.
    """

    weights: DrafterWeights
    head: Head
    embedding: TokenRows
    mask_scale: float
    mask_row: npt.NDArray[np.float16] | None = None

    @property
    def geometry(self) -> Geometry:
        """The drafter's shapes."""
        return self.weights.geometry

    def hidden(self, batch: BlockBatch, pool: Pool, ring: list[list[KeyValue]] | None = None) -> F32:
        """Return the final norm's output (blocks, B, H) of a batch; NumericsError when a value is not finite."""
        g = self.geometry
        x = embed(batch, self.embedding, mask_token=g.mask_token, block=g.block, mask_row=self.mask_row)
        out = Forward(weights=self.weights, mask_scale=self.mask_scale, pool=pool).hidden(x, batch, ring)
        if not np.isfinite(out).all():
            block = int(np.argmax(~np.isfinite(out).all(axis=(1, 2))))
            raise NumericsError("the drafter's output is not finite", where=f"block {block}", code="nonfinite")
        return out

    def project(self, hidden: F32, pool: Pool) -> F32:
        """Return hp = hidden_projection(h) of rows (…, H): the selector's input, (…, rank)."""
        flat = multiply(hidden.reshape(-1, hidden.shape[-1]), self.weights.tensor(HIDDEN_PROJECTION), pool)
        return flat.reshape(*hidden.shape[:-1], -1)

    def drafts(self, batch: BlockBatch, pool: Pool, ring: list[list[KeyValue]] | None = None) -> I64:
        """Return the drafted tokens (blocks, B-1) of a batch."""
        return self.select(self.hidden(batch, pool, ring), batch.anchors, pool)

    def select(self, hidden: F32, anchors: I64, pool: Pool) -> I64:
        """Return the drafted tokens (blocks, B-1) of what ``hidden`` returned for blocks of these anchors."""
        g = self.geometry
        rows = np.ascontiguousarray(hidden[:, 1:])
        values, ids = best_candidates(rows.reshape(-1, g.hidden), self.head, g.selector_top_k, pool)
        shape = (*rows.shape[:2], g.selector_top_k)
        candidates = values.reshape(shape), ids.reshape(shape)
        return select(candidates, self.project(rows, pool), anchors, weights=self.weights)
