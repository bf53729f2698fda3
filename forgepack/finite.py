"""Values that are not finite, found in the bits as they are stored: no copy in another type, block by block."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

# Values of a block stay in the processor's cache between two looks at them.
_BLOCK = 256 << 10
# The bits as they are and as signed numbers, and the exponent's bits: all set in an infinity or NaN.
_EXPONENT: dict[np.dtype[Any], tuple[Any, Any, int]] = {
    np.dtype(ml_dtypes.bfloat16): (np.uint16, np.int16, 0x7F80),
    np.dtype(np.float16): (np.uint16, np.int16, 0x7C00),
    np.dtype(np.float32): (np.uint32, np.int32, 0x7F800000),
    np.dtype(np.float64): (np.uint64, np.int64, 0x7FF0000000000000),
}


def find_nonfinite(values: npt.NDArray[Any]) -> tuple[int, int] | None:
    """Return (how many values are not finite, flat index of the first), or None when all are finite.

    ``values`` is C-contiguous; of a dtype other than BF16, F16, F32 and F64 every value is finite.
    """
    if values.dtype not in _EXPONENT:
        return None
    kind, signed, mask = _EXPONENT[values.dtype]
    bits = values.reshape(-1).view(kind)
    negative = mask | 1 << 8 * bits.itemsize - 1
    count, first = 0, -1
    for start in range(0, bits.size, _BLOCK):
        block = bits[start : start + _BLOCK]
        # The largest of either sign shows it: as signed numbers the negative ones are less, as unsigned ones more.
        if int(block.view(signed).max()) < mask and int(block.max()) < negative:
            continue
        bad = np.flatnonzero(block & kind(mask) == kind(mask))
        first = start + int(bad[0]) if first < 0 else first
        count += int(bad.size)
    return (count, first) if count else None
