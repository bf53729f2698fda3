"""weight.bin of a Core ML package: a header, then records of one constant each, every part aligned to 64 bytes.

Header: u32 number of records, u32 version (2), zeros. Record: u32 0xDEADBEEF, u32 type, u64 bytes, u64 absolute
offset of the data, u64 unused bits of the last byte, zeros. All little endian; values under a byte are packed low
bits first. Source: Core ML's blob format as coremltools 9.0 writes it, measured.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.files import open_regular
from forgepack.limits import BLOB_RECORDS

ALIGNMENT = 64
VERSION = 2
MAX_RECORDS = BLOB_RECORDS
_SENTINEL = 0xDEADBEEF
_HEADER = struct.Struct("<II")
_RECORD = struct.Struct("<IIQQQ")
# Type number -> (name as safetensors would say, bits of a value).
TYPES: Mapping[int, tuple[str, int]] = {
    1: ("F16", 16),
    2: ("F32", 32),
    3: ("U8", 8),
    4: ("I8", 8),
    5: ("BF16", 16),
    6: ("I16", 16),
    7: ("U16", 16),
    8: ("I4", 4),
    9: ("U1", 1),
    10: ("U2", 2),
    11: ("U4", 4),
    12: ("U3", 3),
    13: ("U6", 6),
    14: ("I32", 32),
    15: ("U32", 32),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRecord:
    """One constant's place: element type, offset and bytes of its data, and bits of the last byte that are unused."""

    offset: int
    dtype: str
    bits: int
    begin: int
    nbytes: int
    unused_bits: int

    @property
    def elements(self) -> int:
        """Number of values."""
        return (self.nbytes * 8 - self.unused_bits) // self.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobFile:
    """A parsed weight.bin; ``records`` maps a record's offset to it, ``faults`` are (where, what) in order."""

    path: Path
    size: int
    records: Mapping[int, BlobRecord]
    faults: tuple[tuple[str, str], ...]

    def raw(self, record: BlobRecord) -> npt.NDArray[np.uint8]:
        """Return a record's data as a read-only memory map."""
        if not record.nbytes:
            return np.zeros(0, np.uint8)
        return np.memmap(self.path, np.uint8, "r", record.begin, (record.nbytes,))

    def indices(self, record: BlobRecord) -> npt.NDArray[np.uint8]:
        """Return the values of an unsigned record of at most 8 bits, one a byte, flat."""
        data = np.asarray(self.raw(record))
        if record.bits == 8:
            return data.copy()
        bits = np.unpackbits(data, bitorder="little")[: record.elements * record.bits]
        weights = (1 << np.arange(record.bits)).astype(np.uint8)
        found: npt.NDArray[np.uint8] = (bits.reshape(-1, record.bits) * weights).sum(axis=1, dtype=np.uint8)
        return found


def read_blob_file(path: Path) -> BlobFile:
    """Walk a weight.bin from record to record; what is wrong is kept as a fault and ends the walk.

    Raises MissingError, UnreadableError or CorruptError when the file can't be opened.
    """
    with open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        head = handle.read(ALIGNMENT)
        if not size:
            return _broken(path, size, "the file is empty")
        if len(head) < _HEADER.size:
            return _broken(path, size, "the file is too short for its header")
        count, version = _HEADER.unpack_from(head)
        if version != VERSION or count > MAX_RECORDS:
            return _broken(path, size, f"{count} records of version {version}; version {VERSION} is known")
        records: dict[int, BlobRecord] = {}
        offset = ALIGNMENT
        for number in range(count):
            handle.seek(offset)
            record = _parse(handle.read(_RECORD.size), offset, size)
            if isinstance(record, str):
                where = f"record {number} at {offset}"
                return BlobFile(path=path, size=size, records=records, faults=((where, record),))
            records[offset] = record
            offset = -(-(record.begin + record.nbytes) // ALIGNMENT) * ALIGNMENT
    return BlobFile(path=path, size=size, records=records, faults=())


def _broken(path: Path, size: int, what: str) -> BlobFile:
    return BlobFile(path=path, size=size, records={}, faults=(("header", what),))


def _parse(data: bytes, offset: int, size: int) -> BlobRecord | str:
    """Return a record, or what is wrong with it."""
    if len(data) < _RECORD.size:
        return "the file is truncated"
    sentinel, kind, nbytes, begin, unused = _RECORD.unpack(data)
    if sentinel != _SENTINEL:
        return f"no record starts here: {sentinel:#x} in place of {_SENTINEL:#x}"
    if kind not in TYPES:
        return f"type {kind} is not known"
    # Records follow each other, so a walk can't run in a circle.
    if begin < offset + _RECORD.size or begin + nbytes > size:
        return f"its {nbytes} bytes at {begin} are outside the file of {size}"
    if unused >= 8:
        return f"{unused} unused bits in the last byte"
    dtype, bits = TYPES[kind]
    return BlobRecord(offset=offset, dtype=dtype, bits=bits, begin=begin, nbytes=nbytes, unused_bits=unused)
