"""INT8 per row by plain rounding: s = max|row| / 127 in float16, codes clamped to ±127."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from forgepack.quantize.lut import to_float16_scale

F16 = npt.NDArray[np.float16]
F32 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int8]

TOP = 127


def quantize_int8(weight: F32, where: str) -> tuple[I8, F16]:
    """Return codes (rows, columns) and scales (rows,); a row of zeros has scale 1 and codes 0.

    Halves round to even. NumericsError when a scale overflows float16.
    """
    largest = np.abs(weight).max(axis=1, initial=0).astype(np.float64)
    scale = to_float16_scale(largest / TOP, where)
    codes = np.rint(weight / scale.astype(np.float32)[:, None])
    return np.clip(codes, -TOP, TOP).astype(np.int8), scale


def dequantize_int8(codes: I8, scale: F16) -> F32:
    """Return codes·scale in float32."""
    out: F32 = codes.astype(np.float32)
    out *= scale.astype(np.float32)[:, None]
    return out
