"""Safetensors files, read strictly, never whole in memory.

The common library takes duplicate names, gaps and foreign bytes; a contract can't. The reader parses the header
alone, within the bounds of ``forgepack.limits``, and hands out memory-mapped views.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from forgepack.artifacts.files import open_regular, wrong_binary
from forgepack.canonical import parse_object, sha256_hex
from forgepack.errors import CorruptError, ForgepackError, LimitError, MissingError, UnreadableError
from forgepack.limits import DIMENSIONS, ELEMENTS, SAFETENSORS_HEADER, TENSORS

MAX_HEADER = SAFETENSORS_HEADER
MAX_TENSORS = TENSORS
# The real numbers among the format's element types, as NumPy holds them.
DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
    "BOOL": np.dtype(np.bool_),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
# All of the format's element types, as safetensors 0.8 names them, by their size in bits. Those below a byte are
# packed, and a tensor of them fills whole bytes.
BITS: dict[str, int] = {
    **{name: 8 * dtype.itemsize for name, dtype in DTYPES.items()},
    "C64": 64,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}


def mapped(path: Path, dtype: Any, offset: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return a read-only memory map of a file; UnreadableError when it is no longer what its header said."""
    try:
        return np.memmap(path, dtype, "r", offset, shape)
    except (OSError, ValueError) as err:
        raise UnreadableError(
            "the file can't be mapped: it was changed or removed meanwhile", where=str(path), code="changed"
        ) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor's place in its file; ``begin`` and ``end`` are absolute byte offsets."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsFile:
    """A parsed header over a file of ``size`` bytes; ``header_sha256`` covers the JSON header alone."""

    path: Path
    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]
    size: int
    header_sha256: str

    def raw(self, name: str) -> npt.NDArray[np.uint8]:
        """Return the tensor's bytes as a read-only memory-mapped array."""
        info = self.info(name)
        if info.begin == info.end:
            return np.zeros(0, np.uint8)
        return mapped(self.path, np.uint8, info.begin, (info.end - info.begin,))

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return the tensor as a read-only memory-mapped array of its dtype and shape.

        CorruptError (``tensor-dtype``) for packed or complex elements: nothing here computes with them.
        """
        info = self.info(name)
        if info.dtype not in DTYPES:
            where = f"{self.path}: {name}"
            raise CorruptError(
                "nothing here computes with elements of this type", where=where, found=info.dtype, code="tensor-dtype"
            )
        return self.raw(name).view(DTYPES[info.dtype]).reshape(info.shape)

    def info(self, name: str) -> TensorInfo:
        """Return where the tensor is; MissingError when the file has none of that name."""
        if name not in self.tensors:
            raise MissingError("a tensor is missing", where=f"{self.path}: {name}", code="tensor-missing")
        return self.tensors[name]


def read_safetensors(path: Path) -> SafetensorsFile:
    """Parse the header of ``path``; raise the first fault that ``inspect_safetensors`` finds."""
    file, faults = inspect_safetensors(path)
    if faults:
        raise faults[0]
    if file is None:
        raise CorruptError("no safetensors header", where=str(path), code="header")
    return file


def inspect_safetensors(path: Path) -> tuple[SafetensorsFile | None, list[ForgepackError]]:
    """Return the parsed file, where it can be parsed at all, and every fault of its header and layout.

    Only MissingError and UnreadableError are raised: what absence means is the caller's to say.
    """
    with open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        head = handle.read(512)
        try:
            header = _read_header(path, handle.read, head, size)
            raw = parse_object(header, where=f"{path}: header")
        except (CorruptError, LimitError) as err:
            return None, [err]
    metadata, faults = _metadata(path, raw.pop("__metadata__", {}))
    if len(raw) > MAX_TENSORS:
        found = f"{len(raw)} tensors"
        limit = f"at most {MAX_TENSORS}"
        return None, [
            LimitError("too many tensors", where=str(path), expected=limit, found=found, code="tensor-count")
        ]
    start = 8 + len(header)
    tensors: dict[str, TensorInfo] = {}
    for name, entry in raw.items():
        try:
            tensors[name] = _parse_entry(path, name, entry, start)
        except (CorruptError, LimitError) as err:
            faults.append(err)
    if not faults:
        faults.extend(_layout_faults(path, tensors, start, size))
    file = SafetensorsFile(path=path, tensors=tensors, metadata=metadata, size=size, header_sha256=sha256_hex(header))
    return file, faults


def _read_header(path: Path, read: Callable[[int], bytes], head: bytes, size: int) -> bytes:
    where = str(path)
    # A header's length can spell another format's magic (640 is a pickle's), so a plausible header comes first.
    plausible = head[8:9] == b"{" and _length(head) <= size - 8
    wrong = None if plausible else wrong_binary(path, head, "a safetensors file")
    if wrong is not None:
        raise wrong
    if size < 8:
        raise _truncated(where, 8, size)
    length = _length(head)
    if length > MAX_HEADER and length > size - 8:
        raise CorruptError(
            "the header's declared length is far beyond the file",
            where=where,
            expected=f"at most {size - 8} bytes",
            found=f"{length} bytes",
            hint="this is not a safetensors file; fetch it again",
            code="header",
        )
    if length > MAX_HEADER:
        raise LimitError(
            "the header's declared length is over the limit",
            where=where,
            expected=f"at most {MAX_HEADER} bytes",
            found=f"{length} bytes",
            code="header-size",
        )
    if 8 + length > size:
        raise _truncated(where, 8 + length, size)
    header = (head[8:] + read(max(0, length - len(head) + 8)))[:length]
    if not header.startswith(b"{"):
        raise CorruptError("the header does not start with '{'", where=where, code="header")
    return header


def _length(head: bytes) -> int:
    return int.from_bytes(head[:8], "little")


def _truncated(where: str, expected: int, found: int) -> CorruptError:
    return CorruptError(
        f"the file is truncated, short by {expected - found} bytes",
        where=where,
        expected=f"{expected} bytes",
        found=f"{found} bytes",
        hint="fetch the file again",
        code="truncated",
    )


def _metadata(path: Path, raw: Any) -> tuple[dict[str, str], list[ForgepackError]]:
    if isinstance(raw, dict) and all(isinstance(v, str) for v in raw.values()):
        return raw, []
    return {}, [CorruptError("__metadata__ must map strings to strings", where=str(path), code="header")]


def _parse_entry(path: Path, name: str, entry: Any, start: int) -> TensorInfo:
    where = f"{path}: {name!r}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CorruptError("a tensor needs dtype, shape and data_offsets, nothing else", where=where, code="header")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in BITS if isinstance(dtype, str) else True:
        raise CorruptError("an unknown dtype", where=where, found=repr(dtype)[:80], code="dtype")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise CorruptError("shape and offsets must be natural numbers", where=where, code="header")
    count, rest = divmod(count_elements(shape, where) * BITS[dtype], 8)
    if rest or offsets[1] - offsets[0] != count:
        raise CorruptError(
            "the offsets do not fit shape and dtype",
            where=where,
            expected=f"whole bytes, not {8 * count + rest} bits" if rest else f"{count} bytes",
            found=f"{offsets[1] - offsets[0]} bytes",
            code="header-offsets",
        )
    return TensorInfo(name=name, dtype=dtype, shape=tuple(shape), begin=start + offsets[0], end=start + offsets[1])


def count_elements(shape: Sequence[int], where: str) -> int:
    """Return the product of a shape; LimitError (``tensor-shape-limit``) for one that no array can have.

    The bounds hold after each axis, so the product never grows beyond a machine's numbers.
    """
    count = 1
    for axis in shape if 0 not in shape else ():
        count *= axis
        if count > ELEMENTS:
            break
    if len(shape) > DIMENSIONS or count > ELEMENTS:
        raise LimitError(
            "a tensor's shape is over the limit",
            where=where,
            expected=f"at most {DIMENSIONS} dimensions and {ELEMENTS} elements",
            found=f"{len(shape)} dimensions, {'more' if count > ELEMENTS else count} elements",
            code="tensor-shape-limit",
        )
    return 0 if 0 in shape else count


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= ELEMENTS for n in value)


def _layout_faults(path: Path, tensors: Mapping[str, TensorInfo], start: int, size: int) -> Iterator[CorruptError]:
    """Yield gaps, overlaps, truncation and trailing bytes: each its own code."""
    at = start
    for info in sorted(tensors.values(), key=lambda t: (t.begin, t.end)):
        if info.begin != at:
            kind = "gap" if info.begin > at else "overlap"
            yield CorruptError(
                f"{kind} of {abs(info.begin - at)} bytes before a tensor",
                where=f"{path}: {info.name!r}",
                code=f"header-{kind}",
            )
        at = max(at, info.end)
    if size < at:
        yield _truncated(str(path), at, size)
    if size > at:
        yield CorruptError(
            f"{size - at} bytes follow the last tensor",
            where=str(path),
            expected=f"{at} bytes",
            found=f"{size} bytes",
            code="trailing-bytes",
        )
