"""A folder held by one run at a time: a locked file in it, which a dead run leaves without harm."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forgepack.disk.failures import writing
from forgepack.errors import ForgepackError, OutputError

LOCK = "lock"
_WITHOUT = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_TRIES = 100


@contextmanager
def held(folder: Path, *, busy: ForgepackError) -> Iterator[None]:
    """Make ``folder`` and hold it; raise ``busy`` while another run does, OutputError where it can't be locked.

    The folder is never a link: what is written into it would land elsewhere.
    """
    fd = _hold(folder, busy)
    try:
        yield
    finally:
        os.close(fd)


def _hold(folder: Path, busy: ForgepackError) -> int:
    """Return a locked descriptor of the lock's file; the file may vanish while its owner ends, so look twice."""
    path = folder / LOCK
    with writing(folder):
        for _ in range(_TRIES):
            _make(folder)
            with suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
                if not _locked(fd, folder):
                    os.close(fd)
                    raise busy
                if is_at(fd, path):
                    return fd
                os.close(fd)
    raise busy


def _make(folder: Path) -> None:
    """Make the folder where it is not there; OutputError where a link or a file stands in its place."""
    with suppress(FileExistsError):
        folder.mkdir()
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise OutputError(
            "a link or a file is where the work folder must be",
            where=str(folder),
            hint="look at what it is, move it away, then run the same command again",
            code="not-writable",
        )


def _locked(fd: int, folder: Path) -> bool:
    """Lock a descriptor; False while another run holds it. OutputError where the file system has no locks."""
    try:
        return lock_now(fd)
    except OSError as err:
        os.close(fd)
        if err.errno not in _WITHOUT:
            raise
        raise OutputError(
            "this file system has no locks",
            where=str(folder),
            found=err.strerror,
            hint="name an output on a local disk, or mount the file system with locks, then move the output there",
            code="no-locks",
        ) from err


def lock_now(fd: int) -> bool:
    """Lock a descriptor for this process alone; False while another one holds it. Raises OSError."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(fd: int, path: Path) -> bool:
    """Say whether an open file is the one that stands at ``path``."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False
