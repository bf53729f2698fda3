"""What quantizing one matrix yields: its tensors and what the report says of it; kept as one file for resuming."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.artifacts.safetensors_writer import SafetensorsWriter
from forgepack.canonical import dump_canonical, dump_compact
from forgepack.disk.failures import writing
from forgepack.disk.files import make_folder, move_file, write_file
from forgepack.disk.folders import remove_folder
from forgepack.errors import ForgepackError, InternalError
from forgepack.geometry import Geometry, quant_tensors

KEY_FILE = "key.json"
_PARTS = "parts"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixResult:
    """One quantized matrix: ``tensors`` by their suffix (``lut``, ``idx``, ``scale``, ``int8``) and its report."""

    name: str
    tensors: Mapping[str, npt.NDArray[np.generic]]
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Finished matrices in a work folder, each written whole or not at all, all of one ``key``."""

    folder: Path
    geometry: Geometry

    def path(self, name: str) -> Path:
        """Return where a matrix's part is."""
        return self.folder / f"{name}.safetensors"

    def save(self, result: MatrixResult) -> None:
        """Write a finished matrix: temporary file, fsync, rename."""
        temporary = self.folder / "part.tmp"  # one at a time, under the work folder's lock
        metadata = {"report": dump_compact(result.report).decode("utf-8")}
        with writing(temporary):
            with SafetensorsWriter(temporary, self._specs(result.name), metadata) as writer:
                for suffix, array in result.tensors.items():
                    writer.write(f"{result.name}.{suffix}", np.asarray(array))
            move_file(temporary, self.path(result.name))

    def load(self, name: str) -> tuple[SafetensorsFile, dict[str, Any]] | None:
        """Return a finished matrix's tensors and report, or None when there is none that can be read."""
        if not self.path(name).exists():
            return None
        try:
            file = read_safetensors(self.path(name))
        except ForgepackError:
            return None
        specs = {n: (t.dtype, t.shape) for n, t in file.tensors.items()}
        if specs != self._specs(name):
            return None
        return file, json.loads(file.metadata["report"])

    def require(self, name: str) -> tuple[SafetensorsFile, dict[str, Any]]:
        """Return a matrix that this run has finished."""
        part = self.load(name)
        if part is None:
            raise InternalError("a finished matrix is gone", where=str(self.path(name)))
        return part

    def _specs(self, name: str) -> dict[str, tuple[str, tuple[int, ...]]]:
        wanted = {f"{name}.{suffix}" for suffix in ("lut", "idx", "scale", "int8")}
        return {n: spec for n, spec in quant_tensors(self.geometry).items() if n in wanted}


def open_parts(work: Path, key: Mapping[str, Any], geometry: Geometry) -> Parts:
    """Return the parts of an earlier run of the same ``key`` (inputs and recipe), or an empty folder for new ones."""
    folder, wanted = work / _PARTS, dump_canonical(key)
    with writing(work):
        known = (work / KEY_FILE).read_bytes() if (work / KEY_FILE).exists() else b""
        if known != wanted:
            remove_folder(folder)
        make_folder(folder)
    write_file(work / KEY_FILE, wanted)
    return Parts(folder=folder, geometry=geometry)
