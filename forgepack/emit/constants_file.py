"""Compute every constant into one scratch file, with its digest: authoring maps that file and holds nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from forgepack.coreai_backend.constants import payload_bytes
from forgepack.emit.constant_spec import ConstantSpec, Narrowing, Sources
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

    Raises NumericsError for a value that does not fit, OutputError when the disk refuses.
    """
    stored, narrowed = {}, {}
    with writing(path), path.open("wb") as handle:
        for role, spec in table.items():
            offset = -(-handle.tell() // _ALIGNMENT) * _ALIGNMENT
            handle.seek(offset)
            digest, count = hashlib.sha256(), 0
            for block in spec.blocks(sources):
                handle.write(block.data)
                digest.update(block.data)
                count += block.nbytes
                note(block.nbytes)
            if count != payload_bytes(spec.dtype, spec.shape):
                raise InternalError("a constant's formula gives another size", where=role)
            lost = Narrowing() if spec.inline else spec.narrowing(sources)
            if lost.changed:
                narrowed[role] = lost
            stored[role] = StoredConstant(
                role=role,
                dtype=spec.dtype,
                shape=spec.shape,
                offset=offset,
                nbytes=count,
                sha256=digest.hexdigest(),
            )
    return StoredConstants(path=path, constants=stored, narrowed=narrowed)
