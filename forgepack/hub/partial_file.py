"""A file on its way: bytes land, are hashed as they land, and are checked by the hub's record."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from forgepack.artifacts.files import CHUNK, open_regular, sniff
from forgepack.disk.failures import writing
from forgepack.hub.client import HubFile

HEAD_BYTES = 512


class ContentHash:
    """SHA-256 of a file's bytes and, for one that is not in LFS, the git blob id that the hub records."""

    def __init__(self, file: HubFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._blob = None
        if file.sha256 is None:
            self._blob = hashlib.sha1(b"blob %d\x00" % file.size, usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._sha256.update(data)
        if self._blob is not None:
            self._blob.update(data)

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, in hex."""
        return self._sha256.hexdigest()

    @property
    def found(self) -> str:
        """What the hub's record is compared with, named."""
        return f"sha256 {self.sha256}" if self._blob is None else f"git blob {self._blob.hexdigest()}"

    @property
    def expected(self) -> str:
        """The hub's record, named."""
        return f"sha256 {self._file.sha256}" if self._blob is None else f"git blob {self._file.blob_id}"

    def matches(self) -> bool:
        """Say whether the bytes so far are the hub's record."""
        return self.found == self.expected


def hash_content(path: Path, file: HubFile, progress: Callable[[int], None]) -> ContentHash:
    """Hash an existing regular file against the hub's record; ``progress`` gets the bytes just read."""
    content = ContentHash(file)
    buffer = memoryview(bytearray(CHUNK))
    with open_regular(path) as handle:
        while size := handle.readinto(buffer):  # type: ignore[attr-defined]
            content.update(buffer[:size])
            progress(size)
    return content


class PartialFile:
    """The staged bytes of one file, open for appending. ``size`` bytes are on disk and in ``content``."""

    def __init__(self, path: Path, file: HubFile) -> None:
        self.path = path
        self.file = file
        self.size = 0
        self.head = b""
        self.content = ContentHash(file)
        self._fd = -1

    def __enter__(self) -> Self:
        with writing(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o666)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def rehash(self, progress: Callable[[int], None]) -> None:
        """Take in what an earlier run left: every byte is hashed again, too many bytes as well."""
        buffer = memoryview(bytearray(CHUNK))
        while True:
            with writing(self.path):
                count = os.readv(self._fd, [buffer])
            if count == 0:
                return
            self._account(buffer[:count])
            progress(count)

    def append(self, data: bytes) -> None:
        """Write the next bytes; OutputError when the disk does not take them."""
        view = memoryview(data)
        while view:
            with writing(self.path):
                count = os.write(self._fd, view)
            self._account(view[:count])
            view = view[count:]

    def restart(self) -> None:
        """Drop all bytes."""
        with writing(self.path):
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        self.size, self.head, self.content = 0, b"", ContentHash(self.file)

    def flush(self) -> None:
        """Force the bytes to the disk."""
        with writing(self.path):
            os.fsync(self._fd)

    def looks_like(self) -> str | None:
        """Name the well-known wrong thing that the first bytes look like, or None."""
        return sniff(self.head)

    def _account(self, data: memoryview) -> None:
        if len(self.head) < HEAD_BYTES:
            self.head += bytes(data[: HEAD_BYTES - len(self.head)])
        self.content.update(data)
        self.size += len(data)
