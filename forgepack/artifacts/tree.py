"""A folder as a sorted list of entries, and what makes its names unsafe on any platform."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from forgepack.artifacts.files import read_error
from forgepack.errors import CorruptError, LimitError
from forgepack.limits import TREE_ENTRIES

MAX_ENTRIES = TREE_ENTRIES
JUNK = re.compile(r"(^|/)(\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini|__MACOSX)(/|$)")
_RESERVED = re.compile(r"^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?$", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\[\]]')

Kind = Literal["file", "folder", "link", "special"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry below a root: POSIX relative path, kind, size in bytes (0 unless a file), a link's target."""

    path: str
    kind: Kind
    size: int
    target: str = ""


def walk(root: Path) -> tuple[Entry, ...]:
    """Return every entry below ``root``, sorted by path, links never followed.

    Raises MissingError or UnreadableError for a folder that can't be listed, LimitError over 100,000 entries.
    """
    found: list[Entry] = []
    pending = [(root, "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as listing:
                items = sorted(islice(listing, MAX_ENTRIES + 1), key=lambda item: item.name)
        except OSError as err:
            raise read_error(err, str(folder)) from err
        for item in items:
            entry = _entry(item, prefix + item.name)
            found.append(entry)
            if entry.kind == "folder":
                pending.append((folder / item.name, entry.path + "/"))
        if len(found) > MAX_ENTRIES:
            raise LimitError("too many files", where=str(root), expected=f"at most {MAX_ENTRIES}", code="tree-count")
    return tuple(sorted(found, key=lambda e: e.path))


def _entry(item: os.DirEntry[str], path: str) -> Entry:
    try:
        status = item.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return Entry(path=path, kind="link", size=0, target=str(Path(item.path).readlink()))
    except OSError as err:
        raise read_error(err, item.path) from err
    if stat.S_ISDIR(status.st_mode):
        return Entry(path=path, kind="folder", size=0)
    if stat.S_ISREG(status.st_mode):
        return Entry(path=path, kind="file", size=status.st_size)
    return Entry(path=path, kind="special", size=0)


def content(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield what of a target's build or export counts, and so is bound: all but folders and file managers' junk."""
    return (entry for entry in entries if entry.kind != "folder" and not JUNK.search(entry.path))


def unsafe_reason(path: str) -> str | None:
    """Say why a relative path from a file must not be used, by POSIX and Windows rules alike, or None."""
    if path == "":
        return "empty"
    if "\\" in path:
        return "holds a backslash"
    if path.startswith("/"):
        return "absolute"
    if re.match(r"^[A-Za-z]:", path):
        return "starts with a drive letter"
    if (bad := _FORBIDDEN.search(path)) is not None:
        return f"holds {bad.group()!r}"
    return next((reason for part in path.split("/") if (reason := _unsafe_part(part))), None)


def unsafe_path(path: Any, what: str, *, where: str, hint: str | None = None) -> CorruptError | None:
    """Return the error (``path-escape``) of a path that must not be used, None for any other value."""
    reason = unsafe_reason(path) if isinstance(path, str) else None
    if reason is None:
        return None
    expected, found = "a path below the folder, safe on every platform", f"{path[:80]!r} {reason}"
    return CorruptError(what, where=where, expected=expected, found=found, hint=hint, code="path-escape")


def _unsafe_part(part: str) -> str | None:
    if part == "":
        return "has an empty part"
    if part in (".", ".."):
        return f"has the part {part!r}"
    if _RESERVED.match(part):
        return f"{part!r} is a reserved name on Windows"
    return f"{part!r} ends in a dot or space" if part.endswith((".", " ")) else None


def collisions(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of distinct paths that are one file where case or Unicode form is ignored."""
    first: dict[str, str] = {}
    pairs = []
    for path in sorted(paths):
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        other = first.setdefault(key, path)
        if other != path:
            pairs.append((other, path))
    return pairs
