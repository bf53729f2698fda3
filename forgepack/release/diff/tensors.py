"""Differences of two files of arrays: which tensors, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.npz import NpzFile
from forgepack.artifacts.safetensors_file import DTYPES, SafetensorsFile, TensorInfo
from forgepack.artifacts.target import Embedding
from forgepack.release.diff.values import Array, Difference, equal_bytes, measure, measure_blocks

_ROWS = 256


def safetensors_differences(left: SafetensorsFile, right: SafetensorsFile, file: str) -> Iterator[Difference]:
    """Yield tensors that one side lacks, forms and values that differ, and metadata that does."""
    for name in sorted({*left.tensors, *right.tensors}):
        one, other = left.tensors.get(name), right.tensors.get(name)
        if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
            yield Difference(kind="tensor", file=file, place=name, left=_form(one), right=_form(other))
        elif not equal_bytes(left.raw(name), right.raw(name)):
            amount = measure(*(_values(file_, name) for file_ in (left, right)))
            yield Difference(kind="values", file=file, place=name, left=_form(one), right=_form(other), amount=amount)
    for key in sorted({*left.metadata, *right.metadata}):
        sides = [file_.metadata.get(key) for file_ in (left, right)]
        if sides[0] != sides[1]:
            place = f"__metadata__.{key}"
            shown = [None if side is None else side[:120] for side in sides]
            yield Difference(kind="field", file=file, place=place, left=shown[0], right=shown[1])


def _values(file: SafetensorsFile, name: str) -> Array:
    """Return a tensor's values; of packed or complex elements their bytes."""
    return file.array(name) if file.tensors[name].dtype in DTYPES else file.raw(name)


def _form(info: TensorInfo | None) -> str | None:
    return None if info is None else f"{info.dtype} {list(info.shape)}"


def matrix_differences(left: SafetensorsFile, right: SafetensorsFile, file: str) -> Iterator[Difference]:
    """Yield the quantized matrices whose dequantized values differ: indices alone do not say by how much."""
    for name in sorted(_matrices(left) & _matrices(right)):
        parts = [n for n in (f"{name}.lut", f"{name}.idx", f"{name}.scale", f"{name}.int8") if n in left.tensors]
        if any(_unlike(left.tensors[n], right.tensors.get(n)) for n in parts):
            continue  # reported as tensors of another form
        if all(equal_bytes(left.raw(n), right.raw(n)) for n in parts):
            continue
        amount = measure_blocks(_dequantized(left, right, name))
        form = "LUT4" if f"{name}.idx" in left.tensors else "INT8"
        yield Difference(kind="matrix", file=file, place=name, left=form, right=form, amount=amount)


def _matrices(file: SafetensorsFile) -> set[str]:
    return {
        name.rsplit(".", maxsplit=1)[0]
        for name in file.tensors
        if name.endswith((".idx", ".int8")) and f"{name.rsplit('.', maxsplit=1)[0]}.scale" in file.tensors
    }


def _unlike(one: TensorInfo, other: TensorInfo | None) -> bool:
    """Whether a part has not one form in both files, or one that no quantized matrix has."""
    if other is None or (one.dtype, one.shape) != (other.dtype, other.shape) or len(one.shape) > 2:
        return True
    return one.dtype != {"idx": "U8", "int8": "I8"}.get(one.name.rpartition(".")[2], "F16")


def _dequantized(left: SafetensorsFile, right: SafetensorsFile, name: str) -> Iterator[tuple[Array, Array]]:
    kind = "idx" if f"{name}.idx" in left.tensors else "int8"
    rows = left.tensors[f"{name}.{kind}"].shape[0]
    for start in range(0, rows, _ROWS):
        span = slice(start, start + _ROWS)
        yield _rows(left, name, kind, span), _rows(right, name, kind, span)


def _rows(file: SafetensorsFile, name: str, kind: str, span: slice) -> npt.NDArray[np.float32]:
    stored = file.array(f"{name}.{kind}")[span]
    scale = np.asarray(file.array(f"{name}.scale")[span], np.float32)
    if kind == "idx":
        table = np.asarray(file.array(f"{name}.lut"), np.float32).reshape(-1)
        values = table[np.minimum(stored, table.size - 1)]  # an index out of range is the verifier's to report
    else:
        values = np.asarray(stored, np.float32)
    return np.asarray(values * scale[:, None], np.float32)


def array_differences(left: Mapping[str, Any], right: Mapping[str, Any], file: str) -> Iterator[Difference]:
    """Yield arrays of two archives that differ; values are (form, reader of the array)."""
    for name in sorted({*left, *right}):
        forms = [side[name][0] if name in side else None for side in (left, right)]
        if forms[0] != forms[1]:
            yield Difference(kind="tensor", file=file, place=name, left=forms[0], right=forms[1])
            continue
        values = [side[name][1]() for side in (left, right)]
        if not equal_bytes(values[0].reshape(-1).view(np.uint8), values[1].reshape(-1).view(np.uint8)):
            amount = measure(values[0], values[1])
            yield Difference(kind="values", file=file, place=name, left=forms[0], right=forms[1], amount=amount)


def npz_arrays(file: NpzFile) -> dict[str, Any]:
    """Return an archive's arrays as (form, reader) by name."""

    def reader(name: str) -> Any:
        return lambda: np.atleast_1d(file.read(name))

    return {n: (f"{info.dtype} {list(info.shape)}", reader(n)) for n, info in file.arrays.items()}


def npy_array(file: Embedding) -> dict[str, Any]:
    """Return an embedding as the one array of its file."""
    return {"array": (f"F16 {list(file.shape)}", file.table)}
