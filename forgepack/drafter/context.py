"""Context rows: target features fused once, then one key and one value a layer.

Source: the release contract, section 2. c_t = RMSNorm(fc f_t)·hidden_norm; K_l(t) = RoPE_t(k_norm(k_proj c_t)),
V_l(t) = v_proj c_t. Row t is the row of position t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import numpy.typing as npt

from forgepack.drafter.functions import rms_norm, rope_tables, rotate
from forgepack.drafter.linear import ROW_SPAN
from forgepack.drafter.weights import DrafterWeights
from forgepack.geometry import Geometry
from forgepack.parallel import Pool, even_spans

F32 = npt.NDArray[np.float32]


def fuse(
    weights: DrafterWeights,
    features: Iterable[npt.NDArray[np.floating]],
    pool: Pool,
    *,
    note: Callable[[int, F32], None] | None = None,
) -> list[F32]:
    """Return the fused context (rows, hidden) of each sequence's features (rows, taps x hidden).

    ``fc`` is loaded once; features are converted to float32 a span of rows at a time. ``note`` is shown the products
    of ``fc`` with all rows of each sequence, by its number.
    """
    fc, gain = weights.tensor("fc.weight"), weights.tensor("hidden_norm.weight")
    out = []
    for number, rows in enumerate(features):
        fused = np.empty((len(rows), fc.shape[0]), np.float32)

        def task(span: slice, rows: npt.NDArray[np.floating] = rows, fused: F32 = fused) -> None:
            np.matmul(np.asarray(rows[span], np.float32), fc.T, out=fused[span])

        pool.run([partial(task, span) for span in even_spans(len(rows), ROW_SPAN)])
        if note is not None:
            note(number, fused)
        out.append(rms_norm(fused, gain, weights.geometry.rms_eps))
    return out


def split_heads(x: F32, heads: int) -> F32:
    """Return (n, heads·D) as (heads, n, D)."""
    return np.ascontiguousarray(x.reshape(len(x), heads, -1).transpose(1, 0, 2))


def context_key_value(
    projected: tuple[F32, F32], k_norm: F32, *, positions: npt.NDArray[np.int64], geometry: Geometry
) -> tuple[F32, F32]:
    """Turn k_proj's and v_proj's outputs for rows at ``positions`` into keys and values, (kv_heads, n, D) each."""
    keys = rms_norm(split_heads(projected[0], geometry.kv_heads), k_norm, geometry.rms_eps)
    cos, sin = rope_tables(positions, geometry.head_dim, geometry.rope_theta)
    return rotate(keys, cos, sin), split_heads(projected[1], geometry.kv_heads)
