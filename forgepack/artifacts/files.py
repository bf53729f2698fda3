"""Reading single files safely: regular files only, bounded sizes, absent never confused with unreadable."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from forgepack.errors import CorruptError, LimitError, MissingError, UnreadableError, UsageError
from forgepack.limits import SMALL_FILE

CHUNK = 1 << 19
_POINTER = b"version https://git-lfs"
_MAGICS = {
    b"PK\x03\x04": "a zip archive",
    b"\x80\x02": "a pickle",
    b"\x80\x04": "a pickle",
    b"GGUF": "a GGUF file",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "a NumPy array",
}
# Of a file that should be binary these are looked for, too; a text may well be any other file.
_BINARY_MAGICS = {
    b"\x89HDF": "an HDF5 file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"\xfd7zXZ": "an xz file",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"BZh": "a bzip2 file",
    b"\x7fELF": "a program of Linux",
    b"\xcf\xfa\xed\xfe": "a program of macOS",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}
_TAR = slice(257, 262)
_SHOWN = 48


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading if it is a regular file (links are followed); never blocks on a FIFO.

    Raises MissingError, UnreadableError or CorruptError (code ``not-regular``).
    """
    where = str(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as err:
        raise read_error(err, where) from err
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise CorruptError("not a regular file", where=where, expected="a regular file", code="not-regular")
    try:
        with os.fdopen(fd, "rb") as handle:
            yield handle
    except OSError as err:
        raise read_error(err, where) from err


def read_error(err: OSError, where: str) -> MissingError | UnreadableError | CorruptError:
    """Map an OSError of opening or reading ``where`` to the error that names its cause."""
    if err.errno == errno.ENOTDIR:
        return MissingError("the file is missing: a file stands in place of its folder", where=where, code="missing")
    if err.errno == errno.ENOENT:
        return MissingError("the file is missing", where=where, code="missing")
    if err.errno == errno.ELOOP:
        return CorruptError("a loop of symbolic links", where=where, code="link-loop")
    if err.errno == errno.EISDIR:
        return CorruptError("a folder is where a file must be", where=where, code="not-regular")
    if err.errno == errno.ENXIO:
        return CorruptError("not a regular file", where=where, expected="a regular file", code="not-regular")
    return UnreadableError("the file can't be read", where=where, found=err.strerror, code="unreadable")


def require_file(path: Path) -> None:
    """Raise UsageError for a path that was named and does not exist: the name is wrong, not the input."""
    if not path.exists():
        raise UsageError("no such file", where=str(path), hint="check the path")


def read_bounded(path: Path, limit: int = SMALL_FILE) -> bytes:
    """Return all bytes of a regular file of at most ``limit`` bytes; LimitError when it is larger.

    A Git LFS pointer is a CorruptError (``lfs-pointer``): nothing that is read whole may be one.
    """
    with open_regular(path) as handle:
        data = handle.read(limit + 1)
    if data.startswith(_POINTER):
        raise _pointer(path, data, "the file itself")
    if len(data) > limit:
        size = path.stat().st_size
        raise LimitError(
            "the file is over the limit",
            where=str(path),
            expected=f"at most {limit} bytes",
            found=f"{size} bytes",
            code="size-limit",
        )
    return data


def hash_file(path: Path, progress: Callable[[int], None] | None = None) -> tuple[int, str]:
    """Return (bytes, sha256 hex) of a regular file, read once; UnreadableError when it changes meanwhile."""
    digest = hashlib.sha256()
    # Whole pages: the kernel copies into them faster than into memory at an odd place.
    view = memoryview(mmap.mmap(-1, CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON))
    with open_regular(path) as handle:
        before = os.fstat(handle.fileno())
        count = 0
        raw = handle.raw  # type: ignore[attr-defined]
        while size := raw.readinto(view):
            digest.update(view[:size])
            count += size
            if progress is not None:
                progress(size)
        after = os.fstat(handle.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or count != after.st_size:
        raise UnreadableError("the file changed while it was read", where=str(path), code="changed")
    return count, digest.hexdigest()


def only_line_ends_differ(path: Path, sha256: str) -> bool:
    """Say whether a small text with its line ends written the other way has that digest.

    Git and editors turn ``LF`` into ``CR LF`` and back: nothing is lost, but the bytes are others.
    """
    if path.stat().st_size > SMALL_FILE:
        return False
    text = read_bounded(path).replace(b"\r\n", b"\n")
    return any(hashlib.sha256(form).hexdigest() == sha256 for form in (text, text.replace(b"\n", b"\r\n")))


def sniff(head: bytes) -> str | None:
    """Name what the first bytes of a file look like when they are a well-known wrong thing, else None."""
    if head.startswith(_POINTER):
        return "a Git LFS pointer"
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if start.startswith(b"<?xml"):
        return "an XML document"
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)


def wrong_kind(path: Path, head: bytes, expected: str) -> CorruptError | None:
    """Return the error for a file whose first bytes are a well-known wrong thing, or None."""
    kind = sniff(head)
    if kind is None:
        return None
    if kind == "a Git LFS pointer":
        return _pointer(path, head, expected)
    return _other_kind(path, expected, kind)


def wrong_binary(path: Path, head: bytes, expected: str) -> CorruptError | None:
    """Return the error for a file whose first bytes are a well-known wrong thing or any text, or None.

    For formats whose first bytes are never all printable: an error page's text is shown.
    """
    kind = next((name for magic, name in _BINARY_MAGICS.items() if head.startswith(magic)), None)
    if kind is None and head[_TAR] == b"ustar":
        kind = "a tar archive"
    if kind is None and (text := _printable(head)):
        kind = f"a text: {text}"
    return wrong_kind(path, head, expected) or (None if kind is None else _other_kind(path, expected, kind))


def _printable(head: bytes) -> str:
    """Return the start of a text in one line, nothing when the bytes are none."""
    try:
        text = head[:_SHOWN].decode("utf-8", "strict" if len(head) <= _SHOWN else "ignore")
    except UnicodeDecodeError:
        return ""
    words = " ".join(text.split())
    return ascii(words) if words.isprintable() and words else ""


def _other_kind(path: Path, expected: str, kind: str) -> CorruptError:
    return CorruptError(
        "the file is of another kind", where=str(path), expected=expected, found=kind, code="wrong-magic"
    )


def _pointer(path: Path, head: bytes, expected: str) -> CorruptError:
    words = head[:400].decode("utf-8", "replace").split()
    oid = next((w.removeprefix("sha256:") for w in words if w.startswith("sha256:")), "unknown")
    size = next((after for word, after in pairwise(words) if word == "size"), "unknown")
    return CorruptError(
        "a Git LFS pointer stands in place of the file",
        where=str(path),
        expected=expected,
        found=f"a pointer to sha256 {oid}, {size} bytes",
        hint="download the file itself, e.g. with forgepack fetch",
        code="lfs-pointer",
    )
