"""Archives of ``np.savez``, read strictly: plain arrays alone, sizes checked before anything is read.

``np.load`` evaluates array headers, inflates whatever an archive declares, and takes pickles when asked to.
This reader takes only what ``np.savez`` and ``np.savez_compressed`` write: a zip without comment, prefix,
encryption or duplicate names, whose members are version-1 ``.npy`` files in C order.
"""

from __future__ import annotations

import errno
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.files import open_regular, wrong_binary
from forgepack.errors import CorruptError, LimitError, UnreadableError
from forgepack.limits import DIMENSIONS, ELEMENTS, NPY_HEADER, NPZ_DIRECTORY, NPZ_MEMBERS

MAX_MEMBERS = NPZ_MEMBERS
MAX_DIRECTORY = NPZ_DIRECTORY
_MAX_NPY_HEADER = NPY_HEADER
_DRAIN = 1 << 20
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|=][A-Za-z][0-9]{0,2})', 'fortran_order': (False|True), "
    rb"'shape': \(((?:[0-9]{1,12}(?:, [0-9]{1,12})*,?)?)\), \} *\n"
)
_DTYPE = re.compile(r"[<|][a-z][0-9]{1,2}")
_EOCD = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_EOCD64 = struct.Struct("<4sQ2H2L4Q")
_ZIP_FAULTS = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError, struct.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzArray:
    """One array of an archive: what its header declares; the values stay on disk."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * int(self.dtype[2:])


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzFile:
    """A parsed archive; ``state`` is what the system said of the file that was checked."""

    path: Path
    arrays: Mapping[str, NpzArray]
    state: tuple[int, ...]

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return one array's values; UnreadableError when the file has changed since it was parsed."""
        info = self.arrays[name]
        with self._member(name) as member:
            data = self._take(member, name, info.bytes)
        return np.frombuffer(data, np.dtype(info.dtype)).reshape(info.shape)

    def stream(self, name: str, *, stop: int, rows: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the first ``stop`` rows of an array of one axis or more, ``rows`` at a time; see ``read``."""
        info = self.arrays[name]
        wide = info.bytes // max(1, info.shape[0])
        with self._member(name) as member:
            for start in range(0, stop, rows):
                count = min(rows, stop - start)
                data = self._take(member, name, count * wide)
                yield np.frombuffer(data, np.dtype(info.dtype)).reshape(count, *info.shape[1:])
            left = info.bytes - stop * wide
            while left:
                left -= len(self._take(member, name, min(left, _DRAIN)))

    @contextmanager
    def _member(self, name: str) -> Iterator[IO[bytes]]:
        """Open an array's values; they must be read to their end, where zipfile compares the CRC."""
        with open_regular(self.path) as handle:
            if _state(handle) != self.state:
                raise UnreadableError("the file changed while it was read", where=str(self.path), code="changed")
            with _parsing(self.path), zipfile.ZipFile(handle) as archive, archive.open(f"{name}.npy") as member:
                _read_header(member, str(self.path), name)
                yield member
                if member.read(1):
                    raise _corrupt("an array's size does not fit its header", self.path, name, "more bytes")

    def _take(self, member: IO[bytes], name: str, size: int) -> bytes:
        data = member.read(size)
        if len(data) != size:
            raise _corrupt("an array's size does not fit its header", self.path, name, f"{len(data)} bytes")
        return data


def read_npz(path: Path) -> NpzFile:
    """Parse the directory and every array header of ``path``; CorruptError or LimitError name the member."""
    with open_regular(path) as handle:
        head = handle.read(512)
        if not head.startswith(b"PK\x03\x04"):
            raise wrong_binary(path, head, "an archive of np.savez") or _corrupt("not an archive of np.savez", path)
        count = _check_directory(handle, path)
        with _parsing(path), zipfile.ZipFile(handle) as archive:
            if len(archive.infolist()) != count:
                found = f"{len(archive.infolist())} members, {count} declared"
                raise _corrupt("the zip archive is damaged", path, found=found)
            return NpzFile(path=path, arrays=_read_members(archive, path), state=_state(handle))


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    """Turn what zipfile raises on damage into CorruptError; a seek to a damaged offset is an EINVAL."""
    try:
        yield
    except _ZIP_FAULTS as err:
        raise _corrupt("the zip archive is damaged", path, found=str(err)) from err
    except OSError as err:
        if err.errno != errno.EINVAL:
            raise
        raise _corrupt("the zip archive is damaged", path, found="an offset outside the file") from err


def _state(handle: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(handle.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _check_directory(handle: BinaryIO, path: Path) -> int:
    """Check member count and directory size before zipfile reads the directory whole; return the count."""
    size = handle.seek(0, 2)
    handle.seek(max(0, size - _EOCD.size - _LOCATOR.size))
    tail = handle.read()
    if len(tail) < _EOCD.size or not tail[-_EOCD.size :].startswith(b"PK\x05\x06"):
        raise _corrupt("the zip archive is truncated or padded", path, found="no end record at the end")
    count, length = _EOCD.unpack(tail[-_EOCD.size :])[4:6]
    if tail.startswith(b"PK\x06\x07"):
        offset = _LOCATOR.unpack(tail[: _LOCATOR.size])[2]
        handle.seek(min(offset, size))
        record = handle.read(_EOCD64.size)
        if len(record) < _EOCD64.size or not record.startswith(b"PK\x06\x06"):
            raise _corrupt("the zip archive is damaged", path, found="no zip64 end record")
        count, length = _EOCD64.unpack(record)[7:9]
    for what, found, limit in (("members", count, MAX_MEMBERS), ("bytes of directory", length, MAX_DIRECTORY)):
        if found > limit:
            raise LimitError(
                f"the archive has too many {what}",
                where=str(path),
                expected=f"at most {limit}",
                found=str(found),
                code="npz-limit",
            )
    return int(count)


def _read_members(archive: zipfile.ZipFile, path: Path) -> dict[str, NpzArray]:
    arrays: dict[str, NpzArray] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name == member.filename or name in arrays:
            raise _corrupt("a member is not an array, or comes twice", path, member.filename)
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _corrupt("a member is encrypted or packed in another way", path, name)
        with archive.open(member) as handle:
            info, header = _read_header(handle, str(path), name)
        if member.file_size != header + info.bytes:
            raise _corrupt(
                "an array's size does not fit its header",
                path,
                name,
                f"{member.file_size} bytes declared, {header + info.bytes} needed",
            )
        arrays[name] = info
    return arrays


def _read_header(handle: IO[bytes], where: str, name: str) -> tuple[NpzArray, int]:
    """Return what a version-1 npy header declares, and the header's length; ``handle`` is left behind it."""
    try:
        descr, fortran, shape, length = read_npy_header(handle)
    except ValueError as err:
        raise _corrupt("a member is not an array that NumPy writes", where, name, str(err)) from err
    if fortran:
        raise _corrupt("an array is in Fortran order", where, name)
    if _DTYPE.fullmatch(descr) is None:
        raise _corrupt("an array does not hold plain numbers", where, name, descr)
    return NpzArray(name=name, dtype=descr, shape=shape), length


def read_npy_header(handle: IO[bytes]) -> tuple[str, bool, tuple[int, ...], int]:
    """Return (dtype, Fortran order, shape, length of the header) of a version-1 array; ValueError if it is not one.

    NumPy's own reader evaluates the header as Python and raises whatever the tokenizer of Python does.
    """
    start = handle.read(len(_NPY_MAGIC) + 2)
    if not start.startswith(_NPY_MAGIC) or len(start) < len(_NPY_MAGIC) + 2:
        raise ValueError(f"not a version-1 array: first bytes {start[:8].hex()}")
    length = int.from_bytes(start[-2:], "little")
    text = handle.read(min(length, _MAX_NPY_HEADER))
    match = _NPY_HEADER.fullmatch(text)
    if match is None or len(text) != length:
        raise ValueError(f"header {text[:80]!r}")
    descr, fortran, shape = (group.decode("ascii") for group in match.groups())
    axes = tuple(int(n) for n in re.findall(r"[0-9]+", shape))
    if len(axes) > DIMENSIONS or math.prod(axes) > ELEMENTS:
        raise ValueError(f"a shape over the limits of {DIMENSIONS} dimensions and {ELEMENTS} elements")
    return descr, fortran == "True", axes, len(start) + length


def _corrupt(what: str, path: Path | str, name: str = "", found: str | None = None) -> CorruptError:
    where = f"{path}: {name!r}" if name else str(path)
    return CorruptError(what, where=where, found=found[:200] if found else None, code="npz")
