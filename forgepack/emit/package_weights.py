"""A drafter package's constants read back as the drafter's weights: the table of constants, read backwards.

Every fold is a power of two, so undoing it is exact; what the package holds is what a drafter computes with here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.safetensors_file import SafetensorsFile
from forgepack.coreai_backend.program import Constant
from forgepack.coreai_backend.reader import AssetReading, open_constants
from forgepack.emit.table import role_of
from forgepack.errors import MissingError
from forgepack.geometry import Geometry, codebook_tensors, int8_matrices, lut_matrices
from forgepack.packing import unpack_u4
from forgepack.parallel import spans
from forgepack.profile import Recipe
from forgepack.quantize.folds import lut_factor, scale_factor

F32 = npt.NDArray[np.float32]

# Indices unpacked at once: NumPy gathers by 8-byte indices, so a whole matrix would take 17 times its packed bytes.
_UNPACKED = 1 << 20
MASKED_NORM = "layers.0.input_layernorm.weight"
_DTYPES = {"F16": np.float16, "I8": np.int8}


class Values(Protocol):
    """Gives a role's constant in its shape; 4-bit indices come unpacked as uint8."""

    def __call__(self, role: str, rows: slice = ...) -> npt.NDArray[Any]:
        """Return the constant, or the chosen rows of its first axis."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackageWeights:
    """The weights inside a package; the codebooks are beside the asset, in selector.safetensors.

    Layer 0's input norm comes as its plain gain (H,), or with ``mask_applied`` as the package holds it: one gain a
    row of a block (B, H), the mask scale in rows 1...
    """

    geometry: Geometry
    recipe: Recipe
    values: Values
    selector: SafetensorsFile
    mask_applied: bool = False

    def tensor(self, name: str) -> F32:
        """Return one tensor of the drafter by its name in the checkpoint, as float32."""
        if name in lut_matrices(self.geometry):
            return _dense(self.values, role_of(name), lut_factor(name, self.recipe), scale_factor(name, self.recipe))
        if name in int8_matrices(self.geometry):
            codes = self.values(f"{role_of(name)}.int8").astype(np.float32)
            rows = np.asarray(self.values(f"{role_of(name)}.scale"), np.float32).reshape(-1, 1)
            return codes.reshape(len(rows), -1) * rows
        if name in codebook_tensors(self.geometry):
            return np.asarray(self.selector.array(name), np.float32)
        return self._plain(name)

    def rows(self, name: str, ids: npt.NDArray[np.integer]) -> F32:
        """Return rows of a codebook."""
        return np.asarray(self.selector.array(name)[ids], np.float32)

    def _plain(self, name: str) -> F32:
        g = self.geometry
        if name.endswith(".base_kernel"):
            parts = [[self.values(f"{name}.{s}.{t}").reshape(g.hidden) for t in range(g.conv_kernel)] for s in (0, 1)]
            return np.array(parts, np.float32)
        values = np.asarray(self.values(role_of(name)), np.float32)
        if name == MASKED_NORM:
            gains = np.ascontiguousarray(values.reshape(g.hidden, g.block).T)
            return gains if self.mask_applied else gains[0]  # row 0, the anchor's, carries no mask scale
        if name.endswith("hidden_projection.weight"):
            return values.reshape(g.selector_rank, g.hidden)
        return values.reshape(-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackageHead:
    """The head inside a package: a matrix (vocabulary, hidden) in row parts, folds undone."""

    geometry: Geometry
    recipe: Recipe
    values: Values

    @property
    def vocab(self) -> int:
        """Number of vocabulary rows."""
        return self.geometry.vocab

    def part(self, span: slice) -> F32:
        """Return the rows of ``span`` as float32."""
        size, fold = self.geometry.part_rows, self.recipe.lut_fold_default
        out = []
        for number in range(span.start // size, (span.stop - 1) // size + 1):
            rows = slice(max(span.start - number * size, 0), min(span.stop - number * size, size))
            out.append(_dense(self.values, f"head.{number}", fold, 1.0 / fold, rows))
        return np.concatenate(out)


def _dense(values: Values, role: str, fold: float, row_fold: float, rows: slice = slice(None)) -> F32:
    """Return a LUT4 matrix, or rows of it, folds undone; a few rows are unpacked at a time."""
    lut = np.asarray(values(f"{role}.lut"), np.float32).reshape(-1) / np.float32(fold)
    scale = np.asarray(values(f"{role}.scale"), np.float32).reshape(-1, 1) / np.float32(row_fold)
    chosen = range(len(scale))[rows]
    first = values(f"{role}.idx", slice(chosen.start, chosen.start + 1)).size
    out = np.empty((len(chosen), first), np.float32)
    for span in spans(len(chosen), max(1, _UNPACKED // first)):
        place = slice(chosen.start + span.start, chosen.start + span.stop)
        codes = values(f"{role}.idx", place).reshape(-1, first)
        np.take(lut, codes, out=out[span], mode="clip")  # only with "clip" is nothing buffered; 4 bits are in range
        out[span] *= scale[place]
    return out


@contextmanager
def open_role_values(reading: AssetReading, roles: Mapping[str, int], *, seconds: float) -> Iterator[Values]:
    """Give a function from a role to its constant's values, memory-mapped while the context lasts."""
    constants = reading.program.constants
    # Small constants came with the program; packed ones have no values in their shape, however small they are.
    stored = [n for n in roles.values() if constants[n].data is None or constants[n].dtype == "U4"]
    with open_constants(reading, stored, seconds=seconds) as payloads:

        def values(role: str, rows: slice = slice(None)) -> npt.NDArray[Any]:
            if role not in roles:
                raise MissingError("the package lacks a constant", where=role, code="constant-missing")
            place = roles[role]
            return _values(constants[place], payloads.get(place), rows)

        yield values


def _values(constant: Constant, payload: npt.NDArray[np.uint8] | None, rows: slice) -> npt.NDArray[Any]:
    if payload is None:
        return np.array(constant.values())[rows] if constant.shape else np.array(constant.values())
    if constant.dtype != "U4":
        return payload.view(_DTYPES[constant.dtype]).reshape(constant.shape)[rows]
    count, *rest = constant.shape
    if payload.size % count:  # an odd row ends inside a byte
        return unpack_u4(payload, constant.shape)[rows]
    chosen = payload.reshape(count, -1)[rows]
    return unpack_u4(chosen, (len(chosen), *rest))
