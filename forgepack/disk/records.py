"""Which files a folder of this tool holds by its own record: what --force may replace.

Names, sizes and digests are taken from a record, leniently: the readers of the folder check its content.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from forgepack.artifacts.aimodel import metadata_content
from forgepack.artifacts.files import hash_file, read_bounded
from forgepack.artifacts.tree import JUNK, Entry, walk
from forgepack.canonical import digest_json, parse_object
from forgepack.errors import ForgepackError
from forgepack.limits import JSON_BYTES

# What people write is smaller; of what is larger the size is compared, for a release holds gigabytes.
_HASHED = 1 << 20
# What file managers and a hub's client drop into folders: nothing of value goes with it.
_DROPPED = re.compile(rf"{JUNK.pattern}|^\.cache/huggingface(/|$)|^\.cache$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a folder is, the command that makes such ones, and every file that its record lists, itself included.

    ``contents`` is what the record states of each file: bytes and sha256, or of an asset's metadata, whose date may
    move, content_sha256. Of the record's own files there is none.
    """

    what: str
    command: str
    files: frozenset[str]
    contents: Mapping[str, Mapping[str, Any]]
    own: frozenset[str]

    def holds(self, folder: Path, entry: Entry) -> bool:
        """Say whether a file is as the record lists it: by its size, and by its digest up to 1 MiB."""
        if entry.path in self.own:
            return True
        stated, file = self.contents[entry.path], folder / entry.path
        if "content_sha256" in stated:
            return bool(digest_json(metadata_content(_object(file))) == stated["content_sha256"])
        same_size = entry.size == stated.get("bytes")
        return same_size and (entry.size > _HASHED or hash_file(file)[1] == stated.get("sha256"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A folder's entries against its record: ``foreign`` ones are not this tool's, ``dropped`` ones have no value.

    ``record`` is None where the folder has none: all of it is foreign then. ``changed`` files are listed with another
    content; they were looked for only where that was asked.
    """

    record: Record | None
    files: tuple[str, ...]
    foreign: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: tuple[str, ...]


def look_into(folder: Path, *, exact: bool = False) -> Contents:
    """Return what a folder holds; links are never followed, and always foreign. ``exact`` looks for changed files."""
    record = read_record(folder)
    listed = frozenset() if record is None else record.files
    above = {str(parent) for name in listed for parent in PurePosixPath(name).parents}
    entries = walk(folder)
    ours = {
        e.path for e in entries if e.path in (listed if e.kind == "file" else above if e.kind == "folder" else ())
    }
    dropped = {e.path for e in entries if e.path not in ours and e.kind != "link" and _DROPPED.search(e.path)}
    files = tuple(e for e in entries if e.kind == "file" and e.path in ours)
    return Contents(
        record=record,
        files=tuple(e.path for e in files),
        changed=tuple(e.path for e in files if exact and record is not None and not record.holds(folder, e)),
        foreign=tuple(e.path for e in entries if e.path not in ours | dropped),
        dropped=tuple(sorted(dropped)),
    )


def read_record(folder: Path) -> Record | None:
    """Return what a folder's own record lists, None where it has none that can be read."""
    for name in sorted(_names(folder), key=lambda name: (name != "forgepack.json", name)):
        raw = _object(folder / name)
        found = _release(folder, raw) or _package(name, raw) or _quant(name, raw) or _checkpoint(name, raw)
        if found is not None:
            return found
    return None


def listed_by_lock(path: Path) -> frozenset[str]:
    """Return the files that a checkpoint's lock lists, itself included; none where it can't be read."""
    found = _checkpoint("checkpoint.lock.json", _object(path))
    return frozenset() if found is None else found.files


def _names(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (e.name for e in entries if e.name.endswith(".json") and e.is_file(follow_symlinks=False))


def _object(path: Path) -> Mapping[str, Any]:
    try:
        return parse_object(read_bounded(path, JSON_BYTES), where=str(path))
    except ForgepackError:
        return {}


def _is(raw: Any, schema: str) -> bool:
    return isinstance(raw, Mapping) and str(raw.get("schema", "")).startswith(f"{schema}/")


def _release(folder: Path, raw: Mapping[str, Any]) -> Record | None:
    if not _is(raw, "forgepack.release"):
        return None
    listed = _listed(_object(folder / "release.json").get("files"))
    return _record("a release", "bundle or forgepack build", listed, "release.json", "forgepack.json", "SHA256SUMS")


def _package(name: str, raw: Mapping[str, Any]) -> Record | None:
    bound = raw.get("forgepack")
    if not _is(bound, "forgepack.sidecar"):
        return None
    package = bound.get("package") if isinstance(bound, Mapping) else None
    files = package.get("files") if isinstance(package, Mapping) else None
    listed = files.items() if isinstance(files, Mapping) else ()
    return _record("a drafter package", "emit", ((path, _content(item)) for path, item in listed), name)


def _quant(name: str, raw: Mapping[str, Any]) -> Record | None:
    if name != "report.json" or not _is(raw, "forgepack.quant_report"):
        return None
    output = raw.get("output")
    return _record("a QUANT folder", "quantize", _listed([output], "file"), name)


def _checkpoint(name: str, raw: Mapping[str, Any]) -> Record | None:
    if name != "checkpoint.lock.json" or not _is(raw, "forgepack.checkpoint-lock"):
        return None
    return _record("a checkpoint", "fetch", _listed(raw.get("files")), name)


def _listed(items: Any, key: str = "path") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get(key), str):
            yield item[key], _content(item)


def _content(item: Any) -> Mapping[str, Any]:
    return item if isinstance(item, Mapping) else {}


def _record(what: str, command: str, listed: Iterable[tuple[str, Mapping[str, Any]]], *names: str) -> Record:
    contents, own = dict(listed), frozenset(names)
    return Record(what=what, command=f"forgepack {command}", files=own | contents.keys(), contents=contents, own=own)
