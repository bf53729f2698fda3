"""Which drafter a folder holds, by content: the digest under which a replay's report knows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from forgepack.artifacts.aimodel import PROGRAM_FILE, hash_program, read_asset_files
from forgepack.artifacts.checkpoint import MODEL_FILE, read_checkpoint
from forgepack.artifacts.files import hash_file
from forgepack.artifacts.quant import QUANT_FILE, read_quant
from forgepack.artifacts.tree import walk
from forgepack.canonical import digest_json
from forgepack.drafter.open import kind_of, model_sha256
from forgepack.profile import Profile
from forgepack.verify.inputs.layout import SELECTOR_FILE, Layout, find_layout


def drafter_sha256(path: Path, profile: Profile) -> str:
    """Return the digest of a drafter's files, every byte of which is read; the readers' errors say what is wrong."""
    return digest_json(dict(drafter_files(path, profile)))


def drafter_files(path: Path, profile: Profile) -> Mapping[str, str]:
    """Return name -> sha256 of the files that hold a drafter's weights."""
    kind = kind_of(path)
    if kind == "package":
        return package_files(find_layout(path, walk(path), profile.package))
    if kind == "quant":
        report = read_quant(path, profile.geometry).report
        return {QUANT_FILE: report.output_sha256, MODEL_FILE: report.model_sha256}
    return {MODEL_FILE: model_sha256(read_checkpoint(path, profile, hashed=True))}


def package_files(layout: Layout) -> dict[str, str]:
    """Return name -> sha256 of a package's program and codebooks; CorruptError when main.hash says otherwise."""
    program = hash_program(read_asset_files(layout.asset))
    return {
        f"{layout.asset.name}/{PROGRAM_FILE}": program,
        SELECTOR_FILE: hash_file(layout.root / SELECTOR_FILE)[1],
    }
