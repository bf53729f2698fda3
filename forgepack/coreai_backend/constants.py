"""Constants of an asset: element types, their widths, and a named buffer to author from.

Element types are named as safetensors names them (``F16``, ``U8``, ``I8`` …) plus ``U4``, two values a byte, low
nibble first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from forgepack.errors import InternalError
from forgepack.geometry import Shape

BITS: Mapping[str, int] = {
    **dict.fromkeys(("U4", "I4"), 4),
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F16", "BF16", "U16", "I16"), 16),
    **dict.fromkeys(("F32", "U32", "I32"), 32),
    **dict.fromkeys(("F64", "U64", "I64"), 64),
}
MLIR_NAMES: Mapping[str, str] = {
    "i1": "BOOL",
    **{f"{mlir}{bits}": f"{ours}{bits}" for mlir, ours in (("ui", "U"), ("si", "I")) for bits in (4, 8, 16, 32, 64)},
    **{name.lower(): name for name in ("F16", "BF16", "F32", "F64")},
}


def plain_type(dtype: str, shape: Shape) -> str:
    """Return the text of a tensor type without an encoding, for instance ``tensor<1x8xf16>``."""
    element = next((mlir for mlir, ours in MLIR_NAMES.items() if ours == dtype), dtype)
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def payload_bytes(dtype: str, shape: Shape) -> int:
    """Return how many bytes a dense tensor takes; sub-byte elements are packed, the last byte padded."""
    return -(-math.prod(shape) * BITS[dtype] // 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConstant:
    """One constant to author: its name in the asset, element type, shape, and its packed bytes.

    ``data`` is C-contiguous, may be a memory map, and must hold exactly the payload: Core AI does not check.
    """

    name: str
    dtype: str
    shape: Shape
    data: npt.NDArray[Any]

    def __post_init__(self) -> None:
        expected = payload_bytes(self.dtype, self.shape)
        if self.data.nbytes != expected or not self.data.flags.c_contiguous:
            raise InternalError(
                "a constant's buffer is not what its shape demands",
                where=self.name,
                expected=f"{expected} contiguous bytes for {self.dtype}{list(self.shape)}",
                found=f"{self.data.nbytes} bytes",
            )


ConstantLookup = Callable[[str], NamedConstant]
