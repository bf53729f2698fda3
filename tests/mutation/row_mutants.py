"""Rows of quantized tensors that no rounding gives, under a report whose digest was brought up to date."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.canonical import dump_canonical
from tests.mutation.stage import Mutant

Array = npt.NDArray[Any]
FILE, REPORT = "quant/drafter_quant.safetensors", "quant/report.json"
AREAS = ("WGT", "NUM", "SRC")


def _exchanged(array: Array) -> Array:
    return array[[1, 0, *range(2, len(array))]]


def _first(array: Array, change: Callable[[Any], Any]) -> Array:
    out = array.copy()
    out.reshape(len(out), -1)[0, 0] = change(out.reshape(len(out), -1)[0, 0])
    return out


_BY_SUFFIX: Mapping[str, Mapping[str, Callable[[Array], Array]]] = {
    "scale": {
        "first row negated": lambda a: _first(a, lambda s: -s),
        "first row times 1.3": lambda a: _first(a, lambda s: s * np.float16(1.3)),
        "first rows exchanged": _exchanged,
        "rolled by one": lambda a: np.roll(a, 1),
    },
    "idx": {
        "first row mirrored": lambda a: np.concatenate([15 - a[:1], a[1:]]),
        "first rows exchanged": _exchanged,
        "first index a step off": lambda a: _first(a, lambda n: n ^ 1),
        "rolled by one row": lambda a: np.roll(a, 1, axis=0),
    },
    "int8": {
        "first code off by one": lambda a: _first(a, lambda c: c - 1 if c > 0 else c + 1),
        "first rows exchanged": _exchanged,
    },
    "lut": {"mirrored": lambda a: a[::-1], "times 1.3": lambda a: a * np.float16(1.3)},
}


def row_mutants(root: Path) -> Iterator[Mutant]:
    """Yield the mutants of every quantized tensor; the report states the new file's size and digest."""
    data = (root / FILE).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        for kind, change in _BY_SUFFIX.get(name.rpartition(".")[2], {}).items():
            make = partial(_changed, data, 8 + length, entry, change)
            if make() != data:
                yield Mutant(
                    subject="quantized rows",
                    place=name,
                    kind=kind,
                    areas=AREAS,
                    file=FILE,
                    make=make,
                    along=partial(_resealed, (root / REPORT).read_bytes()),
                )


def _changed(data: bytes, start: int, entry: dict[str, Any], change: Callable[[Array], Array]) -> bytes:
    begin, end = (start + offset for offset in entry["data_offsets"])
    array = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return data[:begin] + np.ascontiguousarray(change(array), array.dtype).tobytes() + data[end:]


def _resealed(report: bytes, tensors: bytes) -> dict[str, bytes]:
    raw = json.loads(report)
    raw["output"] |= {"bytes": len(tensors), "sha256": hashlib.sha256(tensors).hexdigest()}
    return {REPORT: dump_canonical(raw)}
