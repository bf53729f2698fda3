"""Any file of a release by its form: what its suffix promises is read, and every other file is at least looked at.

A file that no rule reads by name may still be a download that failed. Of tensors and arrays only headers are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from forgepack.artifacts.files import open_regular, read_bounded, sniff, wrong_kind
from forgepack.artifacts.npz import read_npy_header
from forgepack.artifacts.safetensors_file import inspect_safetensors
from forgepack.canonical import parse_json
from forgepack.errors import CorruptError, ForgepackError
from forgepack.limits import JSON_BYTES

_MAY_BE_EMPTY = frozenset({".gitkeep", ".keep"})  # git keeps a folder by a file of no bytes
# What a server or git sends in place of any file. Archives and programs are not on the list: a file of unknown kind
# may be one.
_IN_PLACE = ("a Git LFS pointer", "an HTML page", "an XML document")
_PAGES = frozenset({".html", ".xml", ".plist", ".svg"})
_LOOK = 512
_PROBES = 16
_PROBE = 4096


def file_faults(path: Path) -> list[ForgepackError]:
    """Return what is wrong with the form of a file, by its suffix; nothing is raised.

    safetensors: header and layout; npy: header and size; json: strict JSON; anything else: not empty, no Git LFS
    pointer, no page in its place.
    """
    try:
        if path.suffix == ".safetensors":
            return inspect_safetensors(path)[1]
        return list(_plain_faults(path))
    except ForgepackError as err:
        return [err]


def _plain_faults(path: Path) -> Iterator[ForgepackError]:
    with open_regular(path) as handle:
        head = handle.read(_LOOK)
        size = os.fstat(handle.fileno()).st_size
    if not head:
        if path.name not in _MAY_BE_EMPTY:
            yield CorruptError("the file is empty", where=str(path), found="0 bytes", code="empty-file")
        return
    expected = f"a file of the kind {path.suffix or path.name}"
    kind = sniff(head)
    page = path.suffix.lower() in _PAGES and kind != _IN_PLACE[0]
    wrong = wrong_kind(path, head, expected) if kind in _IN_PLACE and not page else None
    if wrong is not None:
        yield wrong
    elif path.suffix == ".json":
        parse_json(read_bounded(path, JSON_BYTES), where=str(path))
    elif path.suffix == ".npy":
        yield from _array_faults(path, size)
    elif not any(head):
        yield CorruptError(
            "the file starts with nothing but zeros",
            where=str(path),
            expected=expected,
            found=f"{len(head)} bytes of zeros",
            hint="fetch the file again: the download left a hole",
            code="wrong-magic",
        )


def _array_faults(path: Path, size: int) -> Iterator[ForgepackError]:
    with open_regular(path) as handle:
        try:
            dtype, _, shape, offset = read_npy_header(handle)
            needed = offset + int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        except (ValueError, TypeError) as err:
            yield CorruptError("not an array that NumPy writes", where=str(path), found=str(err)[:200], code="array")
            return
    if size != needed:
        code = "truncated" if size < needed else "trailing-bytes"
        expected, found = f"{needed} bytes", f"{size} bytes"
        what = "the array's size does not fit its header"
        yield CorruptError(what, where=str(path), expected=expected, found=found, code=code)


def holds_zeros_alone(path: Path, start: int) -> bool:
    """Say whether 16 looks of 4 KB, spread over the bytes from ``start`` on, see nothing but zeros.

    A hole that a download left is found so without reading the file a second time.
    """
    with open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size <= start:
            return False
        last = max(start, size - _PROBE)
        for number in range(_PROBES):
            handle.seek(start + (last - start) * number // (_PROBES - 1))
            if any(handle.read(_PROBE)):
                return False
    return True
