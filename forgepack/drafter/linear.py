"""Row-wise work in fixed spans: products with a matrix, and functions of whole rows or blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from forgepack.parallel import Pool

F32 = npt.NDArray[np.float32]

# Rows of one product. Large enough that packing the weights costs 5% of it, small enough to share among workers.
ROW_SPAN = 1024
# Blocks of one elementwise task: 8 x 64 rows of 5120 channels are 10 MB.
BLOCK_SPAN = 64


def multiply(x: F32, weight: F32, pool: Pool) -> F32:
    """Return x @ weightᵀ, (n, inputs) by (outputs, inputs) -> (n, outputs), in float32."""
    out = np.empty((x.shape[0], weight.shape[0]), np.float32)

    def task(span: slice) -> None:
        np.matmul(x[span], weight.T, out=out[span])

    pool.spans(x.shape[0], ROW_SPAN, task)
    return out


def map_blocks(blocks: int, function: Callable[[slice], None], pool: Pool) -> None:
    """Run ``function`` on spans of blocks; it writes its own part of an output."""
    pool.spans(blocks, BLOCK_SPAN, function)
