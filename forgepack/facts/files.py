"""Files as records state them: size and SHA-256, or for an asset's metadata its content without the date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from forgepack.artifacts.aimodel import METADATA_FILE, SUFFIX, metadata_content
from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.artifacts.tree import content, walk
from forgepack.canonical import digest_json, parse_object
from forgepack.errors import CorruptError

Note = Callable[[int], None]


def file_record(path: Path, note: Note | None = None) -> dict[str, Any]:
    """Return {bytes, sha256} of a file; of an asset's metadata.json {content_sha256}, since saving stamps the date.

    ``note`` hears how many bytes were read. Raises the readers' errors.
    """
    if is_asset_metadata(path):
        return metadata_record(path)
    size, digest = hash_file(path, note)
    return {"bytes": size, "sha256": digest}


def is_asset_metadata(path: Path) -> bool:
    """Say whether a file is the metadata.json of a Core AI asset."""
    return path.name == METADATA_FILE and path.parent.suffix == SUFFIX


def metadata_record(path: Path) -> dict[str, Any]:
    """Return the record of an asset's metadata.json; CorruptError where it is not one."""
    return {"content_sha256": digest_json(metadata_content(parse_object(read_bounded(path), where=str(path))))}


def folder_record(root: Path, prefix: str, note: Note | None = None) -> dict[str, dict[str, Any]]:
    """Return the record of every file below ``root`` as ``prefix/path``; junk of file managers is left out.

    Links are followed to regular files; CorruptError (``not-regular``) for anything else that is not a folder.
    """
    out = {}
    for entry in content(walk(root)):
        if entry.kind == "special":
            raise CorruptError("not a regular file", where=str(root / entry.path), code="not-regular")
        out[f"{prefix}/{entry.path}"] = file_record(root / entry.path, note)
    return out
