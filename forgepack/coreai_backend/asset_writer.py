"""Write an authored program as an asset folder, byte for byte the same in any directory, process or year.

Apple's own ``save_asset`` deletes an existing target first, stamps the clock, writes metadata keys in random order
and reads the whole file back; so the folder is written here: bytecode, its raw SHA-256, canonical metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import ASSET_VERSION, CUSTOM_KEY, DATE_KEY, HASH_FILE, METADATA_FILE, PROGRAM_FILE
from forgepack.artifacts.files import hash_file
from forgepack.canonical import dump_canonical
from forgepack.coreai_backend import bindings
from forgepack.coreai_backend.builder import Program
from forgepack.disk.failures import writing
from forgepack.disk.files import flush, fsync_folder, make_folder, write_new

# A fixed date, the oldest that every archive format can hold: the bytes of a package must not depend on the clock.
FIXED_DATE = 315532800


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetMetadata:
    """What an asset says about itself; ``created`` is in seconds since 1970, ``custom`` any JSON object."""

    author: str
    licence: str
    description: str
    custom: Mapping[str, Any] = field(default_factory=dict)
    created: int = FIXED_DATE

    def as_json(self) -> dict[str, Any]:
        """Return the content of metadata.json."""
        stamp = datetime.fromtimestamp(self.created, UTC).strftime("%Y%m%dT%H%M%SZ")
        return {
            "assetVersion": ASSET_VERSION,
            "author": self.author,
            DATE_KEY: stamp,
            CUSTOM_KEY: dict(self.custom),
            "description": self.description,
            "license": self.licence,
            "producer": bindings.producer(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAsset:
    """What was written: the program's size and digest, and the metadata's digest."""

    root: Path
    program_bytes: int
    program_sha256: str


def write_asset(program: Program, folder: Path, metadata: AssetMetadata) -> WrittenAsset:
    """Write ``program`` into the new folder ``folder`` and flush it; OutputError when the disk refuses.

    The folder must not exist. It is meant to be a staging folder: on an error a partial one is left for its owner
    to remove.
    """
    write_program(program, folder)
    written = seal_program(folder)
    write_description(folder, metadata)
    return written


def write_program(program: Program, folder: Path) -> Path:
    """Write the bytecode of ``program`` into the new folder ``folder`` and return its path; it is not flushed yet."""
    with writing(folder):
        make_folder(folder, exist_ok=False)
        bindings.save_bytecode(program.raw, folder / PROGRAM_FILE)
    return folder / PROGRAM_FILE


def seal_program(folder: Path) -> WrittenAsset:
    """Digest and flush the program in ``folder`` and write the digest beside it: no byte may change after that."""
    with writing(folder):
        with ThreadPoolExecutor(1) as pool:  # the disk and the processor are busy at once
            flushed = pool.submit(flush, folder / PROGRAM_FILE)
            size, digest = hash_file(folder / PROGRAM_FILE)
            flushed.result()
        write_new(folder / HASH_FILE, bytes.fromhex(digest))
    return WrittenAsset(root=folder, program_bytes=size, program_sha256=digest)


def write_description(folder: Path, metadata: AssetMetadata) -> None:
    """Write what the asset in ``folder`` says of itself: with its program it is whole then."""
    with writing(folder):
        write_new(folder / METADATA_FILE, dump_canonical(metadata.as_json()))
        fsync_folder(folder)
