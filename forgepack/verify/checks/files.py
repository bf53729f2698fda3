"""Files compared with the records that a sidecar keeps of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from forgepack.artifacts.files import hash_file, only_line_ends_differ
from forgepack.artifacts.tree import unsafe_reason
from forgepack.errors import CorruptError
from forgepack.facts.files import is_asset_metadata, metadata_record
from forgepack.json_values import equal_json_strict
from forgepack.verify.checks.binding import stated_at
from forgepack.verify.findings.compare import differing
from forgepack.verify.findings.report import Finding
from forgepack.verify.inputs.hashing import FileDigest
from forgepack.verify.inputs.pair import Pair


def target_file(pair: Pair, path: str) -> Path | None:
    """Return where a recorded file ``coreai/…`` or ``export/…`` is; None when that part is not there."""
    role, _, rest = path.partition("/")
    roots = {"coreai": pair.sources.target.build, "export": pair.sources.target.export}
    if role not in roots or unsafe_reason(path) is not None:
        return pair.sources.target.build / "?"  # no such file: the record itself is the fault
    root = roots[role]
    return None if root is None else root / rest


def file_differences(pair: Pair, file: Path, path: str, record: Any) -> Iterator[Finding]:
    """Yield how a file differs from its record; metadata.json of an asset counts by its content without the date."""
    found = describe(pair, file)
    message = f"stated in {stated_at(pair, path)}"
    where = pair.place(file)
    if found is None:
        yield differing("file", where, expected=_short(record), found=_absence(file), message=message)
    elif not equal_json_strict(found, record):
        stated = record.get("sha256") if isinstance(record, Mapping) else None
        message = f"{line_ends(file, stated)}{message}"
        yield differing("file", where, expected=_short(record), found=_short(found), message=message)


def line_ends(file: Path, sha256: object) -> str:
    """Return a word on a file whose digest is another, if it is the same text with other line ends."""
    same_text = isinstance(sha256, str) and file.is_file() and only_line_ends_differ(file, sha256)
    return "it differs only in line ends, as git or an editor writes them; " if same_text else ""


def describe(pair: Pair, file: Path) -> dict[str, Any] | None:
    """Return a file as a sidecar records it; None when it is not there, or is a link that may not be followed.

    What was not hashed with the others is hashed here: a manifest that can't be read names no packages, and those of
    the record are there all the same.
    """
    digest = pair.digests.value.get(file)
    if digest is None and file.is_file() and (pair.sources.allow_links or not file.is_symlink()):
        size, sha256 = hash_file(file)
        digest = FileDigest(bytes=size, sha256=sha256)
    if digest is None:
        return None
    if is_asset_metadata(file):
        try:
            return metadata_record(file)
        except CorruptError:
            pass  # its own reader reports it; here its bytes are compared
    return {"bytes": digest.bytes, "sha256": digest.sha256}


def _absence(file: Path) -> str:
    if file.is_symlink():
        return "a symbolic link, which is not followed"
    return "no regular file" if file.exists() else "no file"


def _short(record: Any) -> str:
    if isinstance(record, Mapping):
        return ", ".join(f"{key} {record[key]}" for key in sorted(record))
    return str(record)
