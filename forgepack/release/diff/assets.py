"""Differences of two Core AI assets: metadata, structure, and each constant by where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from forgepack.artifacts.aimodel import DATE_KEY, HASH_FILE, METADATA_FILE, PROGRAM_FILE, AssetFiles
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.safetensors_file import DTYPES
from forgepack.coreai_backend.compare import Comparison, compare_programs
from forgepack.coreai_backend.program import Constant
from forgepack.coreai_backend.reader import AssetReading, open_constants
from forgepack.coreai_backend.reader import read_asset as read_program
from forgepack.errors import CorruptError, MissingError, PlatformError
from forgepack.packing import unpack_u4
from forgepack.release.diff.json_documents import json_differences
from forgepack.release.diff.values import Amount, Array, Difference, measure, unread
from forgepack.verify.inputs.readers import read_asset

DATE_NOTE = "the date alone: no digest binds it"
Payloads = Mapping[int, npt.NDArray[np.uint8]]


def asset_differences(left: Path, right: Path, file: str) -> Iterator[Difference]:
    """Yield what differs between two assets; what can't be read is a difference of its own."""
    try:
        sides = read_asset(left), read_asset(right)
    except (CorruptError, MissingError) as err:
        yield unread(file, err)
        return
    yield from _plain(sides, file)
    digests = [hash_file(side.program)[1] for side in sides]
    if digests[0] == digests[1]:
        return
    name = f"{file}/{PROGRAM_FILE}".lstrip("/")
    yield Difference(kind="bytes", file=name, place="", left=digests[0], right=digests[1])
    try:
        readings = [read_program(side) for side in sides]
        yield from _programs(readings, name)
    except (CorruptError, PlatformError) as err:
        yield unread(name, err)


def _plain(sides: Sequence[AssetFiles], file: str) -> Iterator[Difference]:
    left, right = sides
    prefix = f"{file}/" if file else ""
    for one in json_differences(dict(left.metadata), dict(right.metadata), prefix + METADATA_FILE):
        note = DATE_NOTE if one.place == DATE_KEY else one.note
        yield Difference(kind=one.kind, file=one.file, place=one.place, left=one.left, right=one.right, note=note)
    if left.stated_sha256 != right.stated_sha256:
        hashes = left.stated_sha256, right.stated_sha256
        yield Difference(kind="bytes", file=prefix + HASH_FILE, place="", left=hashes[0], right=hashes[1])
    for name in sorted(set(left.extra) ^ set(right.extra)):
        words = ("there", None) if name in left.extra else (None, "there")
        yield Difference(kind="file", file=prefix + name, place="", left=words[0], right=words[1])


def _programs(readings: Sequence[AssetReading], file: str) -> Iterator[Difference]:
    """Yield differences of structure, then of each constant at the same place of both programs."""
    comparison = compare_programs(readings[0].program, readings[1].program)
    for one in comparison.differences:
        merged = one.kind == "role"
        yield Difference(
            kind="constant" if merged else "program",
            file=file,
            place=one.where,
            left=one.expected,
            right=one.found,
            note="one constant on the left, several on the right" if merged else one.kind,
        )
    changed = list(_changed(readings, comparison))
    with (
        open_constants(readings[0], [here for _, here, _ in changed]) as ours,
        open_constants(readings[1], [there for _, _, there in changed]) as theirs,
    ):
        for name, here, there in changed:
            constants = readings[0].program.constants[here], readings[1].program.constants[there]
            amount = _amount(constants, (ours[here], theirs[there]))
            form = f"{constants[0].dtype} {list(constants[0].shape)}"
            yield Difference(kind="constant", file=file, place=name, left=form, right=form, amount=amount)


def _changed(readings: Sequence[AssetReading], comparison: Comparison) -> Iterator[tuple[str, int, int]]:
    """Yield (name, index on the left, index on the right) of constants of one form and another content."""
    left, right = (reading.program.constants for reading in readings)
    places = {constant.name: n for n, constant in enumerate(left) if constant.name is not None}
    for name, other in sorted(comparison.roles.items()):
        one = places[name]
        if left[one].sha256 != right[other].sha256:
            yield name, one, other


def _amount(constants: tuple[Constant, Constant], payloads: tuple[Array, Array]) -> Amount:
    values = [_values(constant, payload) for constant, payload in zip(constants, payloads, strict=True)]
    return measure(values[0], values[1])


def _values(constant: Constant, payload: Array) -> Array:
    if constant.dtype == "U4":
        return unpack_u4(payload, constant.shape)
    return payload.view(DTYPES.get(constant.dtype, np.dtype(np.uint8)))
