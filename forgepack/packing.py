"""Sub-byte packing: two 4-bit indices a byte, low nibble first.

This is the order that Core AI's ``ui4`` constants have (measured, see the release contract). Index arrays in
``*.safetensors`` keep one byte an index; only the package packs them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from forgepack.errors import NumericsError

U8Array = npt.NDArray[np.uint8]
Shape = tuple[int, ...]

MAX_INDEX = 15


def packed_bytes(count: int) -> int:
    """Return the bytes that ``count`` 4-bit indices take: an odd last index has a byte of its own."""
    return (count + 1) // 2


def pack_u4(indices: U8Array) -> U8Array:
    """Pack uint8 ``indices`` of any shape, in C order, into a flat uint8 array.

    Index 2i is in the low nibble of byte i, index 2i+1 in its high nibble; the high nibble of an odd last
    index is 0. An index over 15 raises NumericsError.
    """
    flat = np.asarray(indices, np.uint8).reshape(-1)
    if flat.size and int(flat.max()) > MAX_INDEX:
        where = int(np.argmax(flat > MAX_INDEX))
        raise NumericsError(
            "a 4-bit index is out of range",
            where=f"flat index {where}",
            expected=f"0..{MAX_INDEX}",
            found=str(int(flat[where])),
            code="u4-range",
        )
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    # A pair read as one little-endian number is low + 256·high: shifted by 4 and joined, its low byte is the result.
    pairs = np.ascontiguousarray(flat).view("<u2")
    out: U8Array = ((pairs >> 4) | pairs).astype(np.uint8)
    return out


def unpack_u4(packed: U8Array, shape: Shape) -> U8Array:
    """Return the uint8 indices of ``shape`` that ``pack_u4`` packed; a wrong length raises NumericsError.

    The unused nibble of an odd count must be 0, so that equal indices are equal bytes.
    """
    flat = np.asarray(packed, np.uint8).reshape(-1)
    count = int(np.prod(shape, dtype=np.int64))
    if flat.size != packed_bytes(count):
        raise NumericsError(
            "packed 4-bit indices have the wrong length",
            expected=f"{packed_bytes(count)} bytes for shape {shape}",
            found=f"{flat.size} bytes",
            code="u4-length",
        )
    if count % 2 and int(flat[-1]) > MAX_INDEX:
        raise NumericsError("the unused last nibble is not 0", found=hex(int(flat[-1])), code="u4-padding")
    out = np.empty(count, np.uint8)
    out[0::2] = flat & MAX_INDEX
    out[1::2] = flat[: count // 2] >> 4
    return out.reshape(shape)
