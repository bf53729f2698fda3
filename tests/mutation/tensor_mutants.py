"""Every change of one tensor of a safetensors or npy file: an element, its type, shape, name, place."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

_SAME_WIDTH = {"BF16": "F16", "F16": "BF16", "U8": "I8", "I8": "U8", "F32": "I32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMutant:
    """One changed tensor: its name, the kind of change, and what makes the file's new bytes."""

    place: str
    kind: str
    make: Callable[[], bytes]


def tensor_mutants(data: bytes) -> Iterator[TensorMutant]:
    """Yield every mutant of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    header, payload = json.loads(data[8 : 8 + length]), data[8 + length :]
    yield TensorMutant(place="", kind="one byte more", make=lambda: data + b"\0")
    yield TensorMutant(place="", kind="one byte less", make=lambda: data[:-1])
    yield TensorMutant(place="", kind="header padded", make=lambda: _file(header, payload, pad=8))
    named = {"__metadata__": {"x": "y"}, **_tensors(header)}
    yield TensorMutant(place="", kind="metadata", make=lambda: _file(named, payload))
    for name, entry in _tensors(header).items():
        yield from _element_mutants(name, entry, data, 8 + length)
        for kind, other in _header_mutants(name, entry, header):
            yield TensorMutant(place=name, kind=kind, make=partial(_file, other, payload))
        text = json.dumps(header).encode()
        twice = b"{" + json.dumps(name).encode() + b": " + json.dumps(entry).encode() + b", " + text[1:]
        yield TensorMutant(place=name, kind="duplicate", make=partial(_framed, twice, payload))


def _tensors(header: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


def _file(header: dict[str, Any], payload: bytes, pad: int = 0) -> bytes:
    text = json.dumps(header).encode() + b" " * pad
    return _framed(text, payload)


def _framed(text: bytes, payload: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text + payload


def _flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def _element_mutants(name: str, entry: dict[str, Any], data: bytes, start: int) -> Iterator[TensorMutant]:
    begin, end = entry["data_offsets"]
    places = {"first byte": begin, "byte in the middle": (begin + end) // 2, "last byte": end - 1}
    for kind, place in places.items():
        yield TensorMutant(place=name, kind=kind, make=partial(_flipped, data, start + place))
    if any(data[start + begin : start + end]):
        yield TensorMutant(place=name, kind="all zero", make=partial(_zeroed, data, start + begin, start + end))


def _zeroed(data: bytes, begin: int, end: int) -> bytes:
    return data[:begin] + bytes(end - begin) + data[end:]


def _header_mutants(name: str, entry: dict[str, Any], header: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    shape, dtype = entry["shape"], entry["dtype"]
    others = {
        "dtype": {**entry, "dtype": _SAME_WIDTH[dtype]},
        "unknown dtype": {**entry, "dtype": "F8"},
        "another number of axes": {**entry, "shape": [1, *shape]},
        "one row less": {**entry, "shape": [shape[0] - 1, *shape[1:]]},
        "offset by one": {**entry, "data_offsets": [n + 1 for n in entry["data_offsets"]]},
        "an unknown field": {**entry, "x": 1},
    }
    if shape != shape[::-1]:
        others["transposed"] = {**entry, "shape": shape[::-1]}
    for kind, other in others.items():
        yield kind, {**header, name: other}
    yield "missing", {key: value for key, value in header.items() if key != name}
    yield "renamed", {(key + "_packed" if key == name else key): value for key, value in header.items()}
    alike = (key for key, v in _tensors(header).items() if key != name and (v["dtype"], v["shape"]) == (dtype, shape))
    twin = next(alike, None)
    if twin is not None:
        yield "exchanged with its like", {**header, name: header[twin], twin: entry}


def array_mutants(data: bytes, row: int, width: int) -> Iterator[TensorMutant]:
    """Yield mutants of an npy file of float16 rows of ``width``; ``row`` is the one that matters most."""
    start = len(data) - len(data[data.index(b"\n") + 1 :])
    for kind, place in {
        "first element": start,
        "element of the mask row": start + (row * width + 3) * 2,
        "last element": len(data) - 2,
    }.items():
        yield TensorMutant(place="embedding", kind=kind, make=partial(_flipped, data, place))
    for kind, other in {
        "dtype": data.replace(b"<f2", b"<i2", 1),
        "Fortran order": data.replace(b"False", b"True ", 1),
        "one byte less": data[:-1],
        "one byte more": data + b"\0",
        "first two rows exchanged": _exchanged(data, start, width * 2),
    }.items():
        yield TensorMutant(place="embedding", kind=kind, make=partial(bytes, other))


def _exchanged(data: bytes, start: int, size: int) -> bytes:
    one, two = data[start : start + size], data[start + size : start + 2 * size]
    return data[:start] + two + one + data[start + 2 * size :]
