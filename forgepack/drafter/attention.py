"""Attention of a block's rows over the ring of committed rows and the block itself.

Non-causal inside the block; a row q sees a committed row k iff q - k < W. Only committed tokens are in the ring, so
a block at p sees no row at or behind p.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from forgepack.geometry import Geometry

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

# Blocks whose scores are held at once: 32 blocks x 32 heads x 8 rows x 2.3K columns of float32 are 75 MB.
ATTENTION_SPAN = 32


def attend(query: F32, own: tuple[F32, F32], ring: tuple[F32, F32], *, positions: I64, geometry: Geometry) -> F32:
    """Return the attention output (n, B, heads·D) of blocks at ``positions`` of one sequence.

    ``query`` is (n, B, heads, D), rotated; ``own`` holds the blocks' keys and values (n, B, kv_heads, D) and
    ``ring`` the context's, (kv_heads, rows, D), row t for position t.
    """
    out = np.empty((*query.shape[:2], geometry.query_width), np.float32)
    for start in range(0, len(query), ATTENTION_SPAN):
        span = slice(start, start + ATTENTION_SPAN)
        where = positions[span]
        low, high = max(0, int(where.min()) - geometry.window + 1), int(where.max())
        seen = (ring[0][:, low:high], ring[1][:, low:high])
        mask = _visible(where, np.arange(low, high), geometry)
        out[span] = _attend_span(query[span], (own[0][span], own[1][span]), seen, mask)
    return out


def _visible(positions: I64, rows: I64, geometry: Geometry) -> npt.NDArray[np.bool_]:
    """Return (n, B, rows): which committed rows each row of each block sees."""
    queries = positions[:, None] + np.arange(geometry.block)
    near = queries[:, :, None] - rows < geometry.window
    return near & (rows < positions[:, None])[:, None, :]


def _attend_span(query: F32, own: tuple[F32, F32], ring: tuple[F32, F32], mask: npt.NDArray[np.bool_]) -> F32:
    count, block, heads, dim = query.shape
    kv_heads, rows = ring[0].shape[:2]
    share = heads // kv_heads
    # (kv_heads, n, share, B, D): heads of one key head side by side
    q = query.reshape(count, block, kv_heads, share, dim).transpose(2, 0, 3, 1, 4) * np.float32(dim**-0.5)
    keys, values = (np.ascontiguousarray(part.transpose(2, 0, 1, 3))[:, :, None] for part in own)
    scores = np.empty((kv_heads, count, share, block, rows + block), np.float32)
    far = q.reshape(kv_heads, -1, dim) @ ring[0].transpose(0, 2, 1)
    scores[..., :rows] = np.where(mask[None, :, None], far.reshape(*q.shape[:4], rows), np.float32(-np.inf))
    scores[..., rows:] = q @ keys.transpose(0, 1, 2, 4, 3)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    near = scores[..., rows:] @ values
    flat = np.ascontiguousarray(scores[..., :rows]).reshape(kv_heads, -1, rows)
    out = (flat @ ring[1]).reshape(near.shape) + near
    return out.transpose(1, 3, 0, 2, 4).reshape(count, block, heads * dim)
