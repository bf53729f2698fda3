"""A Core AI asset as plain files: metadata.json, main.hash, main.mlirb; nothing of Core AI is imported.

Apple's reader accepts a wrong main.hash and crashes on damaged bytecode, so everything that plain reading can
find is reported here first. metadata.json is bound by its content without the date: re-saving may change that alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file, open_regular, read_bounded, wrong_binary
from forgepack.artifacts.tree import walk
from forgepack.canonical import digest_json, parse_object, sha256_hex
from forgepack.errors import CorruptError, MissingError

SUFFIX = ".aimodel"
COMPILED_SUFFIXES = (".aimodelc", ".aimodelx")
PROGRAM_FILE = "main.mlirb"
HASH_FILE = "main.hash"
METADATA_FILE = "metadata.json"
ASSET_FILES = (HASH_FILE, PROGRAM_FILE, METADATA_FILE)
ASSET_VERSION = "2.0"
DATE_KEY = "creationDate"
CUSTOM_KEY = "creatorDefinedMetadata"
_MAGIC = b"ML\xefR"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetFiles:
    """The files of an asset, read as far as that is cheap; the program's bytes are not read.

    ``stated_sha256`` is what main.hash says of the program, ``content_sha256`` the digest of the metadata without
    its date, ``extra`` the files that do not belong to an asset.
    """

    root: Path
    metadata: Mapping[str, Any]
    metadata_sha256: str
    content_sha256: str
    stated_sha256: str
    program_bytes: int
    extra: tuple[str, ...]

    @property
    def program(self) -> Path:
        """The program's bytecode file."""
        return self.root / PROGRAM_FILE

    @property
    def custom(self) -> Mapping[str, Any]:
        """The metadata that the asset's creator defined."""
        value = self.metadata.get(CUSTOM_KEY, {})
        return value if isinstance(value, dict) else {}


def metadata_content(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without its creation date: what a release binds."""
    return {key: value for key, value in metadata.items() if key != DATE_KEY}


def read_asset_files(root: Path) -> AssetFiles:
    """Read and check an asset's folder; CorruptError or MissingError says what is wrong with which file."""
    if root.suffix != SUFFIX or not root.is_dir():
        raise _not_an_asset(root)
    raw_metadata = read_bounded(root / METADATA_FILE)
    metadata = parse_object(raw_metadata, where=str(root / METADATA_FILE))
    if metadata.get("assetVersion") != ASSET_VERSION:
        raise CorruptError(
            "the asset is of another version",
            where=f"{root / METADATA_FILE}: assetVersion",
            expected=ASSET_VERSION,
            found=repr(metadata.get("assetVersion"))[:80],
            code="aimodel-version",
        )
    return AssetFiles(
        root=root,
        metadata=metadata,
        metadata_sha256=sha256_hex(raw_metadata),
        content_sha256=digest_json(metadata_content(metadata)),
        stated_sha256=_read_stated_hash(root / HASH_FILE),
        program_bytes=_check_program_head(root / PROGRAM_FILE),
        extra=tuple(entry.path for entry in walk(root) if entry.path not in ASSET_FILES),
    )


def stated_hash_digest(program_sha256: str) -> str | None:
    """Return the SHA-256 that main.hash has beside a program of this digest; None for text that is not a digest."""
    try:
        return hashlib.sha256(bytes.fromhex(program_sha256)).hexdigest()
    except ValueError:
        return None


def hash_program(files: AssetFiles, progress: Callable[[int], None] | None = None) -> str:
    """Return the program's SHA-256, streaming; CorruptError (``aimodel-hash``) when main.hash says otherwise."""
    _, found = hash_file(files.program, progress)
    if found != files.stated_sha256:
        raise CorruptError(
            "main.hash is not the digest of main.mlirb",
            where=str(files.program),
            expected=files.stated_sha256,
            found=found,
            hint="restore the package from its source: the program or its hash was changed",
            code="aimodel-hash",
        )
    return found


def _not_an_asset(root: Path) -> CorruptError | MissingError:
    where = str(root)
    if not root.exists():
        return MissingError("the package is missing", where=where, code="missing")
    if not root.is_dir():
        return CorruptError("an asset is a folder", where=where, found="a file", code="not-a-directory")
    found = root.suffix or "no suffix"
    return CorruptError("not a Core AI source asset", where=where, expected=SUFFIX, found=found, code="asset-kind")


def _read_stated_hash(path: Path) -> str:
    data = read_bounded(path)
    if len(data) != 32:
        raise CorruptError(
            "main.hash has another form",
            where=str(path),
            expected="the raw 32 bytes of a SHA-256",
            found=f"{len(data)} bytes",
            code="aimodel-hash-format",
        )
    return data.hex()


def _check_program_head(path: Path) -> int:
    """Return the program's size after a look at its first bytes."""
    with open_regular(path) as handle:
        head = handle.read(512)
        size = os.fstat(handle.fileno()).st_size
    if head.startswith(_MAGIC):
        return size
    wrong = wrong_binary(path, head, "MLIR bytecode")
    if wrong is not None:
        raise wrong
    found = "an empty file" if not head else f"first bytes {head[:4].hex()}"
    raise CorruptError(
        "not MLIR bytecode", where=str(path), expected=f"first bytes {_MAGIC.hex()}", found=found, code="wrong-magic"
    )
