"""Single files: written whole or not at all, under names that can't be guessed, never through a link.

A file on its way has a name of its own (``.forgepack-tmp-`` and 16 hex digits) beside its place, which is locked
while its writer lives: what a killed writer left is removed by the next one that writes into the folder.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from forgepack.disk.failures import writing
from forgepack.disk.locks import is_at, lock_now

PREFIX = ".forgepack-tmp-"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o666  # less the umask, as any new file
_DAY = 86_400.0
# What file systems without such a thing answer to a flush of a folder: SMB, FUSE and 9P among them.
_NO_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, in place of what is there; OutputError when the disk refuses."""
    with replacing(path) as handle:
        handle.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` at the end: flushed, renamed, its folder flushed.

    A link at ``path`` is replaced, not followed. On an error nothing is left and ``path`` stays as it was.
    """
    with writing(path):
        temporary, fd = _new_beside(path)
        try:
            with os.fdopen(fd, "r+b") as handle:
                _sweep(path.parent, temporary.name, os.fstat(fd).st_mtime)
                yield handle
                handle.flush()
                os.fsync(fd)
                temporary.rename(path)  # before the lock goes with the handle
            fsync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def _new_beside(path: Path) -> tuple[Path, int]:
    """Return a new file beside ``path`` and its descriptor, locked where the file system has locks."""
    while True:
        temporary = path.parent / f"{PREFIX}{secrets.token_hex(8)}"
        fd = os.open(temporary, _NEW, _MODE)
        with suppress(OSError):  # no locks: the file's age decides, see _dead
            lock_now(fd)
        if is_at(fd, temporary):
            return temporary, fd
        os.close(fd)  # another run's sweep came between: it took the file for a dead one's


def _sweep(folder: Path, own: str, now: float) -> None:
    """Remove what killed writers left in a folder; what can't be removed is left to the next one."""
    with suppress(OSError):
        for path in sorted(folder.glob(f"{PREFIX}*")):
            with suppress(OSError):
                if path.name != own:
                    _sweep_one(path, now)


def _sweep_one(path: Path, now: float) -> None:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode) and _dead(fd, now):
            path.unlink()
    finally:
        os.close(fd)


def _dead(fd: int, now: float) -> bool:
    """Say whether a file's writer is gone: no process has it locked, or, without locks, it is older than a day."""
    try:
        return lock_now(fd)
    except OSError:
        return now - os.fstat(fd).st_mtime > _DAY


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file at ``path``, flushed at the end: for files of a folder that is published whole.

    What is there is removed, never followed or written into. OutputError when the disk refuses.
    """
    with writing(path):
        with suppress(FileNotFoundError):
            path.unlink()
        with os.fdopen(os.open(path, _NEW, _MODE), "r+b") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())


def write_new(path: Path, data: bytes) -> None:
    """Write a new file of a folder that is published whole, and flush it."""
    with new_file(path) as handle:
        handle.write(data)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write into at any offset, made where it is not there; a link is refused, nothing is flushed."""
    with writing(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with os.fdopen(fd, "r+b") as handle:
            yield handle


def flush(path: Path) -> None:
    """Force a file's bytes to the disk; OutputError when it refuses."""
    with writing(path), path.open("rb+") as handle:
        os.fsync(handle.fileno())


def fsync_folder(folder: Path) -> None:
    """Flush a folder's own entries, so that a rename in it survives a power cut, where the file system can."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as err:
        if err.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(fd)


def make_folder(folder: Path, *, parents: bool = False, exist_ok: bool = True) -> None:
    """Make a folder where it is not there; OutputError when the disk refuses."""
    with writing(folder):
        folder.mkdir(parents=parents, exist_ok=exist_ok)


def remove_file(path: Path) -> None:
    """Remove a file or a link if it is there; OutputError when the disk refuses."""
    with writing(path):
        path.unlink(missing_ok=True)


def move_file(path: Path, place: Path) -> None:
    """Rename a file to its place, in place of what is there, and flush both folders."""
    with writing(place):
        path.rename(place)
        for folder in {path.parent, place.parent}:
            fsync_folder(folder)
