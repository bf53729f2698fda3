"""Compute every constant into one scratch file, with its digest: authoring maps that file and holds nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from forgepack.coreai_backend.constants import payload_bytes
from forgepack.emit.constant_spec import ConstantSpec, Narrowing, Sources
from forgepack.emit.describe import gather
from forgepack.errors import InternalError
from forgepack.geometry import Shape
from forgepack.staging import writing

_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConstant:
    """One computed constant: where its payload lies in the scratch file, and its digest."""

    role: str
    dtype: str
    shape: Shape
    offset: int
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConstants:
    """All constants by role, and what rounding to float16 cost where it cost anything."""

    path: Path
    constants: Mapping[str, StoredConstant]
    narrowed: Mapping[str, Narrowing]


def store_constants(
    table: Mapping[str, ConstantSpec], sources: Sources, path: Path, *, note: Callable[[int], None]
) -> StoredConstants:
    """Compute every constant of the table into ``path``; ``note`` is told the bytes of each block.

    Two threads compute them, each at the place that the table gives it. Raises NumericsError for a value that does
    not fit, OutputError when the disk refuses.
    """
    with writing(path), path.open("wb") as handle:
        store = _Store(descriptor=handle.fileno(), sources=sources, note=note)
        stored = gather(*(partial(store.write, spec, offset) for spec, offset in _places(table)))
    constants = {constant.role: constant for constant, _ in stored}
    narrowed = {constant.role: lost for constant, lost in stored if lost.changed}
    return StoredConstants(path=path, constants=constants, narrowed=narrowed)


def _places(table: Mapping[str, ConstantSpec]) -> Iterator[tuple[ConstantSpec, int]]:
    """Yield each constant with its offset in the file, a multiple of a page."""
    offset = 0
    for spec in table.values():
        yield spec, offset
        offset += -(-payload_bytes(spec.dtype, spec.shape) // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    descriptor: int
    sources: Sources
    note: Callable[[int], None]

    def write(self, spec: ConstantSpec, offset: int) -> tuple[StoredConstant, Narrowing]:
        """Compute one constant block by block into its place."""
        digest, count = hashlib.sha256(), 0
        for block in spec.blocks(self.sources):
            self._put(block.view(np.uint8).data, offset + count)
            digest.update(block.data)
            count += block.nbytes
            self.note(block.nbytes)
        if count != payload_bytes(spec.dtype, spec.shape):
            raise InternalError("a constant's formula gives another size", where=spec.role)
        constant = StoredConstant(
            role=spec.role,
            dtype=spec.dtype,
            shape=spec.shape,
            offset=offset,
            nbytes=count,
            sha256=digest.hexdigest(),
        )
        return constant, Narrowing() if spec.inline else spec.narrowing(self.sources)

    def _put(self, data: memoryview, offset: int) -> None:
        while data:
            written = os.pwrite(self.descriptor, data, offset)
            data, offset = data[written:], offset + written
