"""Safetensors files, written canonically and tensor by tensor: sorted by name, so equal content is equal bytes."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import DTYPES, TensorInfo
from forgepack.canonical import dump_compact
from forgepack.disk.files import flush, new_file


def _reserve(fd: int, size: int) -> None:
    """Give a file its full size, with blocks where the system can: a full disk fails here, not as a SIGBUS later."""
    if hasattr(os, "posix_fallocate") and size:
        os.posix_fallocate(fd, 0, size)
    else:
        os.ftruncate(fd, size)


class SafetensorsWriter:
    """Write a safetensors file tensor by tensor, in any order, through a memory map.

    ``specs`` maps names to (dtype, shape). The header lists names sorted and is padded with spaces to 8 bytes.
    Used as a context manager; on success the file is complete and flushed, on an error it is left to the caller's
    staging folder to remove.
    """

    def __init__(
        self, path: Path, specs: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]
    ) -> None:
        self._path = path
        self._infos: dict[str, TensorInfo] = {}
        self._missing = set(specs)
        header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
        offset = 0
        for name in sorted(specs):
            dtype, shape = specs[name]
            end = offset + math.prod(shape) * DTYPES[dtype].itemsize
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
            self._infos[name] = TensorInfo(name=name, dtype=dtype, shape=shape, begin=offset, end=end)
            offset = end
        text = dump_compact(header)
        text += b" " * (-len(text) % 8)
        self._start = 8 + len(text)
        with new_file(path) as handle:
            handle.write(struct.pack("<Q", len(text)) + text)
            handle.flush()
            _reserve(handle.fileno(), self._start + offset)

    def view(self, name: str) -> npt.NDArray[Any]:
        """Return a writable memory-mapped view of the tensor; taking it counts as writing it."""
        info = self._infos[name]
        self._missing.discard(name)
        if info.begin == info.end:
            return np.zeros(info.shape, DTYPES[info.dtype])
        count = info.end - info.begin
        raw = np.memmap(self._path, np.uint8, "r+", self._start + info.begin, (count,))
        return raw.view(DTYPES[info.dtype]).reshape(info.shape)

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Copy ``array`` into the tensor; its dtype and shape must be the declared ones."""
        view = self.view(name)
        if array.dtype != view.dtype or array.shape != view.shape:
            raise ValueError(f"{name}: {array.dtype}{array.shape} is not {view.dtype}{view.shape}")
        view[...] = array

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if self._missing:
                raise ValueError(f"tensors never written: {sorted(self._missing)[:3]}")
            flush(self._path)
