"""A QUANT folder: drafter_quant.safetensors in Forge's names, dtypes and shapes, and report.json.

The tensors are a closed set (contract, section 3): each LUT4 matrix has ``.lut`` F16 [16,1], ``.idx`` U8 one byte a
weight and ``.scale`` F16; each INT8 matrix has ``.int8`` I8 and ``.scale`` F16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.checkpoint import tensor_faults
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.quant_report import REPORT_FILE, QuantReport, read_quant_report
from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.artifacts.tree import walk
from forgepack.errors import CorruptError, IdentityError, MissingError, NumericsError
from forgepack.finite import find_nonfinite
from forgepack.geometry import Geometry, Shape, int8_matrices, lut_matrices, quant_tensors
from forgepack.packing import MAX_INDEX

QUANT_FILE = "drafter_quant.safetensors"
_ROW_SPAN = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Quant:
    """A checked QUANT folder; weights stay on disk. ``matrices`` are all quantized matrices, name -> shape."""

    root: Path
    geometry: Geometry
    tensors: SafetensorsFile
    report: QuantReport

    @property
    def matrices(self) -> Mapping[str, Shape]:
        """Every quantized matrix by its name in the checkpoint."""
        return {**lut_matrices(self.geometry), **int8_matrices(self.geometry)}

    def dequantize(self, name: str) -> npt.NDArray[np.float32]:
        """Return a matrix as float32: lut[idx]·scale or int8·scale, float16 factors multiplied in float32."""
        scale = np.asarray(self.tensors.array(f"{name}.scale"), np.float32)
        if f"{name}.int8" in self.tensors.tensors:
            out = np.asarray(self.tensors.array(f"{name}.int8"), np.float32)
        else:
            indices = self.tensors.array(f"{name}.idx")
            lut = np.asarray(self.tensors.array(f"{name}.lut"), np.float32).reshape(-1)
            out = np.empty(indices.shape, np.float32)
            for start in range(0, len(indices), _ROW_SPAN):
                rows = slice(start, start + _ROW_SPAN)
                out[rows] = lut[indices[rows]]
        out *= scale[:, None]
        return out


def read_quant(root: Path, geometry: Geometry, *, content: bool = True) -> Quant:
    """Read a QUANT folder: a closed set of two files, the tensors of ``geometry``, and the report over them.

    With ``content`` every byte is read: the file's digest must be the report's, indices must be <= 15, and
    lut and scale finite. Raises MissingError, CorruptError, IdentityError (another digest) or NumericsError.
    """
    for entry in walk(root):
        if entry.path not in (QUANT_FILE, REPORT_FILE) or entry.kind != "file":
            where = f"{root}: {entry.path!r}"
            raise CorruptError(
                "a QUANT folder holds exactly two files",
                where=where,
                expected=f"{QUANT_FILE} and {REPORT_FILE}",
                hint="name the folder that forgepack quantize wrote",
                code="quant-unexpected",
            )
    report = read_quant_report(_required(root, REPORT_FILE))
    tensors = read_safetensors(_required(root, QUANT_FILE))
    for fault in tensor_faults(tensors, quant_tensors(geometry)):
        raise fault
    quant = Quant(root=root, geometry=geometry, tensors=tensors, report=report)
    if content:
        _check_digest(quant)
        _check_values(quant)
    return quant


def _required(root: Path, name: str) -> Path:
    if not (root / name).exists():
        raise MissingError(
            "not a QUANT folder", where=str(root / name), hint="run forgepack quantize", code="missing"
        )
    return root / name


def _check_digest(quant: Quant) -> None:
    size, digest = hash_file(quant.tensors.path)
    report = quant.report
    if (size, digest) != (report.output_bytes, report.output_sha256):
        raise IdentityError(
            "the quantized weights are not those of the report beside them",
            where=str(quant.tensors.path),
            expected=f"{report.output_bytes} bytes, sha256 {report.output_sha256}",
            found=f"{size} bytes, sha256 {digest}",
            hint="quantize again",
            code="quant-digest",
        )


def _check_values(quant: Quant) -> None:
    for name, info in quant.tensors.tensors.items():
        values = quant.tensors.array(name)
        where = f"{quant.tensors.path}: {name}"
        if info.dtype == "U8" and int(values.max()) > MAX_INDEX:
            found = f"{int(values.max())}"
            raise NumericsError(
                "an index is out of range", where=where, expected="0..15", found=found, code="u4-range"
            )
        if find_nonfinite(values) is not None:
            raise NumericsError("a quantized value is not finite", where=where, code="nonfinite")
