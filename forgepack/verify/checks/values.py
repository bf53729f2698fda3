"""Values of weights that no digest is needed to refuse: not finite, all zero, zero-filled, constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import DTYPES, SafetensorsFile
from forgepack.finite import find_nonfinite

# Values of a block stay in the processor's cache between two looks at them.
_BLOCK = 256 << 10
_PARTS = 4

# The sign's bit, which a zero may have set.
_SIGNS: dict[str, tuple[Any, int]] = {
    "BF16": (np.uint16, 0x8000),
    "F16": (np.uint16, 0x8000),
    "F32": (np.uint32, 0x80000000),
    "F64": (np.uint64, 0x8000000000000000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One tensor to look at: its name, element type, shape, and raw bytes as a memory map."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    raw: Callable[[], npt.NDArray[np.uint8]]


def weights_of(file: SafetensorsFile) -> Iterator[Weight]:
    """Yield every tensor of a file."""
    for name, info in sorted(file.tensors.items()):
        yield Weight(name=name, dtype=info.dtype, shape=info.shape, raw=lambda n=name: file.raw(n))  # type: ignore[misc]


def nonfinite(weight: Weight) -> tuple[int, int] | None:
    """Return (how many values are not finite, flat index of the first), or None when all are finite."""
    return find_nonfinite(weight.raw().view(DTYPES[weight.dtype])) if weight.dtype in DTYPES else None


def emptiness(weight: Weight) -> str | None:
    """Say how a tensor of two axes or more is empty of information: all zero, a zero-filled quarter, constant."""
    raw = weight.raw()
    if len(weight.shape) < 2 or raw.size < 64:
        return None
    kind, sign = _SIGNS.get(weight.dtype, (np.uint8, 0))
    mask = ~kind(sign)
    values = raw.view(kind)
    size = values.size
    bounds = [size * part // _PARTS for part in range(_PARTS + 1)]
    empty = [part for part in range(_PARTS) if not _any(values[bounds[part] : bounds[part + 1]], mask)]
    if len(empty) == _PARTS:
        return "all values are zero"
    if empty:
        return f"values {bounds[empty[0]]} to {bounds[empty[0] + 1]} of {size} are all zero"
    return None if _varies(values) else "all values are equal"


def _any(values: npt.NDArray[Any], mask: Any) -> bool:
    """Whether any value is not zero, minus zero counted as zero."""
    return any(bool((values[start : start + _BLOCK] & mask).any()) for start in range(0, values.size, _BLOCK))


def _varies(values: npt.NDArray[Any]) -> bool:
    return any(bool((values[start : start + _BLOCK] != values[0]).any()) for start in range(0, values.size, _BLOCK))
