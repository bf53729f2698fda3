"""A drafter package as weights: its constants read back and unfolded, so that it replays like any other drafter.

Everything that the program computes with comes from the program: matrices, norms (with the mask scale in layer 0's),
head and mask row; the codebooks come from selector.safetensors beside it. Folds are powers of two and are undone in
float32, so what float16 lost to a fold stays lost, as it is on the device. The arithmetic is float32, not the
device's float16.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from forgepack.artifacts.aimodel import read_asset_files
from forgepack.artifacts.checkpoint import tensor_faults
from forgepack.artifacts.safetensors_file import SafetensorsFile, read_safetensors
from forgepack.artifacts.sidecar import read_sidecar
from forgepack.artifacts.trace_overlap import Fingerprint, parse_fingerprint
from forgepack.artifacts.tree import walk
from forgepack.coreai_backend.program import AssetProgram
from forgepack.coreai_backend.reader import AssetReading
from forgepack.drafter.open import OpenedDrafter, Uncalibrated
from forgepack.emit.package_weights import MASKED_NORM, PackageHead, PackageWeights, Values, open_role_values
from forgepack.emit.table import constant_table, role_of
from forgepack.errors import CorruptError, ForgepackError
from forgepack.geometry import Geometry, codebook_tensors
from forgepack.profile import Profile
from forgepack.release.replay.drafter_identity import package_files
from forgepack.verify.inputs.layout import SELECTOR_FILE, find_layout
from forgepack.verify.inputs.lineage import asset_reader, compare_with_emitted, expected_program

SECONDS = 600.0


@contextmanager
def open_package(path: Path, profile: Profile, *, seconds: float = SECONDS) -> Iterator[OpenedDrafter]:
    """Open a drafter package for replay; its constants are in temporary files as long as the context lasts.

    Raises CorruptError (``package-replay``) when the program is not one that this tool emits for the profile: then
    no constant has a known meaning. PlatformError where Core AI is missing.
    """
    layout = find_layout(path, walk(path), profile.package)
    files = read_asset_files(layout.asset)
    selector = _read_selector(path / SELECTOR_FILE, profile.geometry)
    digests = package_files(layout)
    geometry, recipe = profile.geometry, profile.recipe
    with asset_reader(lambda: [files], seconds) as reader:
        reading, expected = reader.read(files, digests=False), expected_program(reader, geometry, recipe)
    with open_role_values(reading, _roles(reading, expected, profile), seconds=seconds) as values:
        yield OpenedDrafter(
            path=path,
            kind="package",
            weights=PackageWeights(
                geometry=geometry, recipe=recipe, values=values, selector=selector, mask_applied=True
            ),
            mask_scale=_mask_scale(values, layout.sidecar),
            calibrated=_calibrated(layout.sidecar),
            files=digests,
            head=PackageHead(geometry=geometry, recipe=recipe, values=values),
            mask_row=np.asarray(values("mask_row"), np.float16).reshape(-1),
            folded=True,
        )


def _read_selector(path: Path, geometry: Geometry) -> SafetensorsFile:
    file = read_safetensors(path)
    for fault in tensor_faults(file, {n: ("BF16", s) for n, s in codebook_tensors(geometry).items()}):
        raise fault
    return file


def _roles(reading: AssetReading, expected: AssetProgram, profile: Profile) -> dict[str, int]:
    """Return the index of each named role's constant; CorruptError for a program that this tool does not emit."""
    comparison = compare_with_emitted(reading, expected)
    table = constant_table(profile.geometry, profile.recipe)
    named = {role for role, spec in table.items() if not spec.inline}
    roles = {role: place for role, place in comparison.roles.items() if role in named}
    unlike = [f"{d.where}: expected {d.expected}, found {d.found}" for d in comparison.differences]
    unlike += [f"no constant {role}" for role in sorted(named - set(roles))]
    if unlike:
        raise CorruptError(
            "the package's program is not one that this tool emits, so its constants can't be distinguished",
            where=str(reading.files.root),
            expected=f"the program of profile {profile.name}",
            found=f"{len(unlike)} differences; first: {unlike[0]}"[:300],
            hint="forgepack verify says what differs; replay the QUANT that the package was made of",
            code="package-replay",
        )
    return roles


def _calibrated(sidecar: Path) -> Fingerprint | Uncalibrated:
    """Return what the sidecar says of the sequences that calibrated the package; a foreign one says nothing."""
    try:
        stated = read_sidecar(sidecar).value("forgepack.quantization.calibration.traces.fingerprint")
    except ForgepackError:
        return "unknown"  # what is wrong with the sidecar is the verifier's to report
    return parse_fingerprint(stated) or "unknown"


def _mask_scale(values: Values, sidecar: Path) -> float:
    """Return the mask scale that the sidecar states if layer 0's norm holds exactly that, else the norm's own ratio.

    A ratio read back from float16 is off in the fourth digit, so a statement that fits is the better number.
    """
    gains = np.asarray(values(role_of(MASKED_NORM)), np.float16)[0, :, 0].T
    anchor = np.asarray(gains[0], np.float32)
    try:
        stated = read_sidecar(sidecar).raw.get("mask_scale")
    except ForgepackError:
        stated = None  # what is wrong with the sidecar is the verifier's to report
    if isinstance(stated, float | int) and not isinstance(stated, bool) and 0 < stated <= 1:
        masked = (anchor * np.float32(stated)).astype(np.float16)
        if (gains[1:] == masked).all():
            return float(stated)
    some = anchor != 0
    ratios = np.asarray(gains[1:, some], np.float32) / anchor[some]
    return float(np.median(ratios)) if ratios.size else 1.0
