"""What one constant of the package is: role, element type, shape, formula, sources, and how to compute it.

The emitter writes what a spec computes; the lineage check computes it again and compares digests. Everything is
computed in blocks, so the largest constants are never in memory whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.coreai_backend.constants import payload_bytes
from forgepack.errors import InternalError, NumericsError
from forgepack.geometry import Shape
from forgepack.packing import pack_u4

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
# Gives the array behind a source's name, for instance ``quant:fc.weight.lut`` or ``checkpoint:norm.weight``.
Sources = Callable[[str], Array]

SMALLEST_NORMAL = 2.0**-14
# A block and what is computed from it stay in the processor's cache.
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What rounding to float16 cost below its normal range: values that changed, and those that became 0."""

    changed: int = 0
    zeroed: int = 0

    def __add__(self, other: Narrowing) -> Narrowing:
        return Narrowing(changed=self.changed + other.changed, zeroed=self.zeroed + other.zeroed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantSpec:
    """One constant. ``exact`` yields its values in order, block by block, before the last step.

    That step is, by ``dtype``: F16 rounds float32 to nearest, U4 packs two indices a byte, I8 takes the values as
    they are. ``inline`` marks scalars, which the program holds without a name; ``formula`` is for people and for the
    sidecar.
    """

    role: str
    dtype: str
    shape: Shape
    formula: str
    sources: tuple[str, ...]
    exact: Callable[[Sources], Iterator[Array]]
    inline: bool = False

    def blocks(self, sources: Sources) -> Iterator[Array]:
        """Yield the payload in order as flat C-contiguous arrays; NumericsError where a value does not fit."""
        for block in self.exact(sources):
            yield self._narrow(block)

    def evaluate(self, sources: Sources) -> Array:
        """Return the whole payload: in its shape, or flat and packed for U4."""
        parts = list(self.blocks(sources))
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if flat.nbytes != payload_bytes(self.dtype, self.shape):
            raise InternalError("a constant's formula gives another size", where=self.role)
        return flat if self.dtype == "U4" else flat.reshape(self.shape)

    def digest(self, sources: Sources) -> str:
        """Return the SHA-256 of the payload, computed block by block."""
        digest = hashlib.sha256()
        for block in self.blocks(sources):
            digest.update(block.data)
        return digest.hexdigest()

    def narrowing(self, sources: Sources) -> Narrowing:
        """Count the values that float16 can't hold exactly because they are too small for its normal range."""
        total = Narrowing()
        if self.dtype == "F16":
            for block in self.exact(sources):
                total += count_narrowing(np.asarray(block, np.float32))
        return total

    def _narrow(self, block: Array) -> Array:
        if self.dtype == "U4":
            return pack_u4(block)
        if self.dtype == "F16":
            return to_float16(np.asarray(block, np.float32), self.role).reshape(-1)
        return np.ascontiguousarray(block).reshape(-1)


def to_float16(values: F32, where: str) -> npt.NDArray[np.float16]:
    """Round float32 to float16, nearest even; NumericsError for a value that is not finite before or after."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float16)
    bad = np.flatnonzero(~np.isfinite(narrow))
    if bad.size:
        value = float(values.flat[bad[0]])
        raise NumericsError(
            f"{bad.size} values do not fit float16",
            where=where,
            expected="finite values of at most 65504",
            found=f"{value:g} at flat index {bad[0]}",
            hint="the checkpoint or its quantization is damaged, or needs other folds",
            code="float16-range",
        )
    return narrow


def count_narrowing(values: F32) -> Narrowing:
    """Count the values below float16's normal range that rounding changes, and those that it makes 0."""
    small = values[(np.abs(values) < SMALLEST_NORMAL) & (values != 0)]
    narrow = small.astype(np.float16).astype(np.float32)
    return Narrowing(changed=int((narrow != small).sum()), zeroed=int((narrow == 0).sum()))


def row_blocks(matrix: Array) -> Iterator[Array]:
    """Yield a matrix in blocks of whole rows of about 1 MB; an even number of rows, so that nibbles pair up."""
    step = max(2, _BLOCK // max(1, matrix[:1].nbytes) // 2 * 2)
    for start in range(0, len(matrix), step):
        yield matrix[start : start + step]
