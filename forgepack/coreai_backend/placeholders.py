"""Stand-ins for constants whose values come later: written by Core AI, found again in the file, overwritten there.

Core AI's writer copies a constant's buffer into the file as it is, wherever its format wants it. So a program can be
written before its large constants are computed, and each of them goes once, straight into its place: no second file
of the same size, no second copy.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from forgepack.coreai_backend.constants import NamedConstant, payload_bytes
from forgepack.errors import InternalError
from forgepack.geometry import Shape

_MARK_BYTES = 24
# What a stand-in must hold at least: the mark of its program and its number.
SMALLEST = _MARK_BYTES + 8


class Placeholders:
    """The stand-ins of one program. Their mark is drawn anew for each, so no content can pass for one."""

    def __init__(self) -> None:
        self._mark = os.urandom(_MARK_BYTES)
        self._labels: dict[bytes, NamedConstant] = {}

    def constant(self, name: str, dtype: str, shape: Shape) -> NamedConstant:
        """Return a constant of at least ``SMALLEST`` bytes that stands in for ``name``; its memory is not touched."""
        label = self._mark + len(self._labels).to_bytes(SMALLEST - _MARK_BYTES, "little")
        data = np.zeros(payload_bytes(dtype, shape), np.uint8)
        data[: len(label)] = np.frombuffer(label, np.uint8)
        self._labels[label] = NamedConstant(name=name, dtype=dtype, shape=shape, data=data)
        return self._labels[label]

    def locate(self, path: Path) -> dict[str, int]:
        """Return name -> offset in the written program; InternalError unless each stands there exactly once."""
        pending, found, place = dict(self._labels), {}, 0
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as view:
            while (place := view.find(self._mark, place)) >= 0:
                constant = pending.pop(view[place : place + SMALLEST], None)
                if constant is None or place + constant.data.nbytes > len(view):
                    raise InternalError("Core AI wrote a constant twice or cut it short", where=str(path))
                found[constant.name] = place
                place += constant.data.nbytes
        if pending:
            missing = next(iter(pending.values())).name
            raise InternalError("Core AI did not write a constant as it was given", where=str(path), found=missing)
        return found
