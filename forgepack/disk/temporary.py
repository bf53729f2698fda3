"""Folders for temporary files that a killed run leaves, and that the next run removes.

Each is named ``forgepack-…`` and holds a file on which its owner keeps a lock (flock). The lock ends with the
process, however it ends, so a folder whose lock can be taken has no owner. Process ids are not used: the system
reuses them.
Only folders of this user are looked at. On a file system without locks nothing is swept, and nothing is marked.
A run that is killed before its lock is made leaves an empty folder, which goes a day later.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forgepack.disk.locks import is_at, lock_now
from forgepack.errors import OutputError

PREFIX = "forgepack-"
# Folders as made by ``temporary_folder`` alone: other parts of the tool and other tools may use the prefix.
MARK = ".forgepack-owner"
NEW_MARK = f"{MARK}.new"
_MADE = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}")
_DAY = 86_400.0


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new private folder, removed on leaving; folders of dead runs beside it are removed first.

    OutputError (``temporary``) where no folder for temporary files can be written.
    """
    try:
        place = Path(tempfile.gettempdir())
        sweep(place)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place)).resolve()
        with contextlib.suppress(PermissionError):  # a file system without modes
            folder.chmod(0o700)  # whatever the umask
    except OSError as err:
        raise no_temporary_folder(err) from err
    handle = -1
    try:
        handle = _mark(folder)
        yield folder
    finally:
        _remove(folder)
        if handle >= 0:
            os.close(handle)


def no_temporary_folder(err: OSError) -> OutputError:
    """Return the error for a machine on which no temporary file can be made."""
    named = os.environ.get("TMPDIR")
    return OutputError(
        "no folder for temporary files can be written",
        where=str(err.filename) if err.filename else None,
        expected="TMPDIR, or else /tmp, /var/tmp, /usr/tmp or the current folder",
        found=f"{err.strerror or type(err).__name__}; TMPDIR is {named or 'not set'}",
        hint="set TMPDIR to a folder that this user may write and that has room",
        code="temporary",
    )


def sweep(place: Path) -> None:
    """Remove the folders below ``place`` that dead runs of this user left; one that can't be removed stays."""
    with contextlib.suppress(OSError):
        for folder in sorted(place.glob(f"{PREFIX}*")):
            _sweep_one(folder)


def _sweep_one(folder: Path) -> None:
    with contextlib.suppress(OSError):
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return
        if time.time() - status.st_mtime > _DAY:
            _remove_unmarked(folder)
        handle = os.open(folder / MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # Still the same file: its owner may have removed the folder between the two calls.
            if lock_now(handle) and is_at(handle, folder / MARK):
                _remove(folder)
        finally:
            os.close(handle)


def _remove_unmarked(folder: Path) -> None:
    """Remove a folder whose owner was killed before it was marked: nothing is in it, or the mark on its way."""
    if _MADE.fullmatch(folder.name) and {path.name for path in folder.iterdir()} <= {NEW_MARK}:
        new = folder / NEW_MARK
        if os.path.lexists(new) and stat.S_ISREG(new.lstat().st_mode) and not new.lstat().st_size:
            new.unlink()
        folder.rmdir()


def _remove(folder: Path) -> None:
    """Remove a folder, its mark last: what a kill meanwhile leaves is still known to the next sweep."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != MARK:
                path.unlink(missing_ok=True)
        if {path.name for path in folder.iterdir()} <= {MARK}:
            (folder / MARK).unlink(missing_ok=True)
            folder.rmdir()


def _mark(folder: Path) -> int:
    """Lock the owner's file and return its handle; -1, and no file, on a file system without locks.

    The file appears under its name only when it is locked: a sweep never finds one that is not.
    """
    new = folder / NEW_MARK
    handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        lock_now(handle)
        new.rename(folder / MARK)
    except OSError:
        os.close(handle)
        new.unlink(missing_ok=True)
        return -1
    return handle
