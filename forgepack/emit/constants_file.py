"""Compute constants, each once, into its place in a file, with its digest; nothing is held in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from forgepack.coreai_backend.constants import payload_bytes
from forgepack.coreai_backend.placeholders import SMALLEST
from forgepack.disk.files import opened
from forgepack.emit.constant_spec import ConstantSpec, Narrowing, Sources
from forgepack.errors import InternalError
from forgepack.geometry import Shape
from forgepack.parallel import gather

_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConstant:
    """One computed constant: its type, the digest of its payload, and what rounding to float16 cost."""

    role: str
    dtype: str
    shape: Shape
    sha256: str
    lost: Narrowing


def comes_late(spec: ConstantSpec) -> bool:
    """Say whether a constant is written after the program: indices and codes, which are nearly all of its bytes.

    The others are given as they are: equal ones (a table that the head's parts share) are stored once.
    """
    return spec.dtype != "F16" and payload_bytes(spec.dtype, spec.shape) >= SMALLEST


def lay_out(specs: Iterable[ConstantSpec]) -> dict[str, int]:
    """Return role -> offset in a file of these constants one after another, each at a multiple of a page."""
    places, offset = {}, 0
    for spec in specs:
        places[spec.role] = offset
        offset += -(-payload_bytes(spec.dtype, spec.shape) // _ALIGNMENT) * _ALIGNMENT
    return places


def store_constants(
    specs: Iterable[ConstantSpec],
    sources: Sources,
    path: Path,
    places: Mapping[str, int],
    *,
    note: Callable[[int], None],
) -> dict[str, StoredConstant]:
    """Compute constants into the offsets ``places`` of a file; ``note`` gets the bytes of each block.

    Two threads compute them; the file may exist, its other bytes stay. Raises NumericsError for a value that does not
    fit, OutputError when the disk refuses.
    """
    with opened(path) as handle:
        store = _Store(descriptor=handle.fileno(), sources=sources, note=note)
        stored = gather(*(partial(store.write, spec, places[spec.role]) for spec in specs))
    return {constant.role: constant for constant in stored}


def narrowings(stored: Mapping[str, StoredConstant]) -> dict[str, Narrowing]:
    """Return by role what rounding to float16 cost, where it cost anything."""
    return {role: constant.lost for role, constant in stored.items() if constant.lost.changed}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    descriptor: int
    sources: Sources
    note: Callable[[int], None]

    def write(self, spec: ConstantSpec, offset: int) -> StoredConstant:
        """Compute one constant block by block into its place."""
        digest, count = hashlib.sha256(), 0
        for block in spec.blocks(self.sources):
            self._put(block.view(np.uint8).data, offset + count)
            digest.update(block.data)
            count += block.nbytes
            self.note(block.nbytes)
        if count != payload_bytes(spec.dtype, spec.shape):
            raise InternalError("a constant's formula gives another size", where=spec.role)
        return StoredConstant(
            role=spec.role,
            dtype=spec.dtype,
            shape=spec.shape,
            sha256=digest.hexdigest(),
            lost=Narrowing() if spec.inline else spec.narrowing(self.sources),
        )

    def _put(self, data: memoryview, offset: int) -> None:
        while data:
            written = os.pwrite(self.descriptor, data, offset)
            data, offset = data[written:], offset + written
