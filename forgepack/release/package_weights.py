"""A drafter package as weights: its constants read back and unfolded, so that it replays like any other drafter.

Everything that the program computes with comes from the program: matrices, norms (with the mask scale in layer 0's),
head and mask row; the codebooks come from selector.safetensors beside it. Folds are powers of two and are undone in
float32, so what float16 lost to a fold stays lost, as it is on the device. The arithmetic is float32, not the
device's float16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.artifacts.checkpoint import tensor_faults
from forgepack.artifacts.safetensors_file import DTYPES, SafetensorsFile, read_safetensors
from forgepack.artifacts.sidecar import read_sidecar
from forgepack.artifacts.tree import walk
from forgepack.coreai_backend.program import AssetProgram
from forgepack.coreai_backend.reader import AssetReading, open_constants, read_asset
from forgepack.drafter.open import OpenedDrafter
from forgepack.drafter.weights import HIDDEN_PROJECTION, Ids
from forgepack.emit.table import constant_table, role_of
from forgepack.errors import CorruptError, ForgepackError
from forgepack.geometry import Geometry, codebook_tensors, int8_matrices, lut_matrices
from forgepack.packing import unpack_u4
from forgepack.profile import Profile, Recipe
from forgepack.quantize.folds import lut_factor, scale_factor
from forgepack.release.drafter_identity import package_files
from forgepack.verify.layout import SELECTOR_FILE, find_layout
from forgepack.verify.lineage import compare_with_emitted

F32 = npt.NDArray[np.float32]
SECONDS = 600.0
MASKED_NORM = "layers.0.input_layernorm.weight"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constants:
    """The constants of a program by their role; ``payloads`` are packed bytes by index."""

    program: AssetProgram
    roles: Mapping[str, int]
    payloads: Mapping[int, npt.NDArray[np.uint8]]

    def values(self, role: str) -> npt.NDArray[Any]:
        """Return a constant's values in its shape; 4-bit indices one a byte."""
        index = self.roles[role]
        constant, payload = self.program.constants[index], self.payloads[index]
        if constant.dtype == "U4":
            return unpack_u4(payload, constant.shape)
        return payload.view(DTYPES[constant.dtype]).reshape(constant.shape)

    def floats(self, role: str, factor: float = 1.0) -> F32:
        """Return a constant divided by the ``factor`` that it was folded with."""
        return np.asarray(self.values(role), np.float32) / np.float32(factor)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackageWeights:
    """A package's weights under the checkpoint's names; layer 0's input norm holds one gain a row of a block."""

    geometry: Geometry
    recipe: Recipe
    constants: Constants
    selector: SafetensorsFile

    def tensor(self, name: str) -> F32:
        """Return one tensor as the program computes with it, unfolded."""
        role, found = role_of(name), self.constants
        if name in lut_matrices(self.geometry):
            lut = found.floats(f"{role}.lut", lut_factor(name, self.recipe)).reshape(-1)
            scale = found.floats(f"{role}.scale", scale_factor(name, self.recipe)).reshape(-1)
            return _dequantized(lut, found.values(f"{role}.idx"), scale)
        if name in int8_matrices(self.geometry):
            codes = found.floats(f"{role}.int8")
            return codes.reshape(len(codes), -1) * found.floats(f"{role}.scale").reshape(-1, 1)
        if name.endswith("base_kernel"):
            return self._base_kernel(name)
        values = found.floats(role)
        if name == HIDDEN_PROJECTION:
            return values.reshape(self.geometry.selector_rank, -1)
        return values[0, :, 0].T.copy() if name == MASKED_NORM else values.reshape(-1)

    def _base_kernel(self, name: str) -> F32:
        g = self.geometry
        taps = [
            [self.constants.floats(f"{name}.{side}.{tap}").reshape(-1) for tap in range(g.conv_kernel)]
            for side in range(2)
        ]
        return np.array(taps, np.float32)

    def rows(self, name: str, ids: Ids) -> F32:
        """Return rows of a codebook."""
        return np.asarray(self.selector.array(name)[ids], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackageHead:
    """The head inside a package: row parts, each with a table, indices and scales of its own."""

    geometry: Geometry
    fold: float
    constants: Constants

    @property
    def vocab(self) -> int:
        """Number of vocabulary rows."""
        return self.geometry.vocab

    def part(self, span: slice) -> F32:
        """Return some rows as float32, from as many parts as they lie in."""
        step = self.geometry.part_rows
        out = []
        for number in range(span.start // step, -(-span.stop // step)):
            rows = slice(max(0, span.start - number * step), min(step, span.stop - number * step))
            out.append(self._rows(f"head.{number}", rows))
        return np.concatenate(out)

    def _rows(self, role: str, rows: slice) -> F32:
        lut = self.constants.floats(f"{role}.lut", self.fold).reshape(-1)
        scale = self.constants.floats(f"{role}.scale", 1 / self.fold).reshape(-1)
        return _dequantized(lut, self.constants.values(f"{role}.idx")[rows], scale[rows])


@contextmanager
def open_package(path: Path, profile: Profile, *, seconds: float = SECONDS) -> Iterator[OpenedDrafter]:
    """Open a drafter package for replay; its constants lie in temporary files as long as the context lasts.

    Raises CorruptError (``package-replay``) when the program is not one that this tool emits for the profile: then
    no constant has a known meaning. PlatformError where Core AI is missing.
    """
    layout = find_layout(path, walk(path), profile.package)
    files = read_asset_files(layout.asset)
    selector = _read_selector(path / SELECTOR_FILE, profile.geometry)
    digests = package_files(layout)
    reading = read_asset(files, digests=False, seconds=seconds)
    roles = _roles(reading, profile)
    with open_constants(reading, list(roles.values()), seconds=seconds) as payloads:
        constants = Constants(program=reading.program, roles=roles, payloads=payloads)
        head = PackageHead(geometry=profile.geometry, fold=profile.recipe.lut_fold_default, constants=constants)
        yield OpenedDrafter(
            path=path,
            kind="package",
            weights=PackageWeights(
                geometry=profile.geometry, recipe=profile.recipe, constants=constants, selector=selector
            ),
            mask_scale=_mask_scale(constants, layout.sidecar),
            files=digests,
            head=head,
            mask_row=np.asarray(constants.values("mask_row"), np.float16).reshape(-1),
            folded=True,
        )


def _read_selector(path: Path, geometry: Geometry) -> SafetensorsFile:
    file = read_safetensors(path)
    for fault in tensor_faults(file, {n: ("BF16", s) for n, s in codebook_tensors(geometry).items()}):
        raise fault
    return file


def _roles(reading: AssetReading, profile: Profile) -> dict[str, int]:
    """Return the index of each named role's constant; CorruptError for a program that this tool does not emit."""
    comparison = compare_with_emitted(reading, profile.geometry, profile.recipe)
    table = constant_table(profile.geometry, profile.recipe)
    named = {role for role, spec in table.items() if not spec.inline}
    roles = {role: place for role, place in comparison.roles.items() if role in named}
    unlike = [f"{d.where}: expected {d.expected}, found {d.found}" for d in comparison.differences]
    unlike += [f"no constant {role}" for role in sorted(named - set(roles))]
    if unlike:
        raise CorruptError(
            "the package's program is not one that this tool emits, so its constants can't be told apart",
            where=str(reading.files.root),
            expected=f"the program of profile {profile.name}",
            found=f"{len(unlike)} differences; first: {unlike[0]}"[:300],
            hint="forgepack verify says what differs; replay the QUANT that the package was made of",
            code="package-replay",
        )
    return roles


def _mask_scale(constants: Constants, sidecar: Path) -> float:
    """Return the mask scale that the sidecar states if layer 0's norm holds exactly that, else the norm's own ratio.

    A ratio read back from float16 is off in the fourth digit, so a statement that fits is the better number.
    """
    gains = np.asarray(constants.values(role_of(MASKED_NORM)), np.float16)[0, :, 0].T
    anchor = np.asarray(gains[0], np.float32)
    try:
        stated = read_sidecar(sidecar).raw.get("mask_scale")
    except ForgepackError:
        stated = None  # what is wrong with the sidecar is the verifier's to tell
    if isinstance(stated, float | int) and not isinstance(stated, bool) and 0 < stated <= 1:
        masked = (anchor * np.float32(stated)).astype(np.float16)
        if (gains[1:] == masked).all():
            return float(stated)
    some = anchor != 0
    ratios = np.asarray(gains[1:, some], np.float32) / anchor[some]
    return float(np.median(ratios)) if ratios.size else 1.0


def _dequantized(lut: F32, indices: npt.NDArray[np.uint8], scale: F32) -> F32:
    """Return lut[idx]·scale as (rows, columns)."""
    out: F32 = lut[indices.reshape(len(indices), -1)]
    out *= scale[:, None]
    return out
