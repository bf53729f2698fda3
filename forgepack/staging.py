"""Putting a finished folder in its place: the old state or the new one, never a half.

The folder is built in a work folder beside its place, flushed, and moved by one rename; an old folder is
exchanged for it in one step where the system can (Linux, macOS), so that no moment is without either.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forgepack.artifacts.tree import fsync_folder
from forgepack.errors import OutputError, UsageError

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_LOCK = "lock"


def work_folder(out: Path) -> Path:
    """Return the hidden folder beside ``out`` in which it is built."""
    return out.parent / f".{out.name}.work"


@contextmanager
def locked_work(out: Path, *, force: bool) -> Iterator[Path]:
    """Yield the work folder of ``out``, held against a second run; what a dead run left in it is kept.

    UsageError when ``out`` exists and ``force`` is not given, its parent is missing, or another run holds the folder.
    """
    import fcntl

    work = work_folder(out)
    with writing(out):
        if (out.exists() or out.is_symlink()) and not force:
            raise UsageError("the output exists", where=str(out), hint="choose another folder, or give --force")
        if not out.parent.is_dir():
            raise UsageError("the output's parent folder does not exist", where=str(out.parent))
        work.mkdir(exist_ok=True)
        handle = os.open(work / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise UsageError("another run is writing this output", where=str(work)) from err
        yield work
    finally:
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError inside into an OutputError that names ``path``."""
    try:
        yield
    except OSError as err:
        where = str(err.filename or path)
        raise OutputError("the output could not be written", where=where, found=err.strerror, code="write") from err


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temporary file beside it, fsync, rename."""
    temporary = path.with_name(path.name + ".tmp")
    with writing(path):
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)


def publish(staged: Path, out: Path) -> None:
    """Move the folder ``staged`` to ``out``; an old ``out`` stands in its way no moment too early and is removed."""
    with writing(out):
        fsync_folder(staged)
        if out.is_dir() and not out.is_symlink():
            if not _exchange(staged, out):
                shutil.rmtree(out)
                staged.rename(out)
        else:
            if out.exists() or out.is_symlink():
                out.unlink()
            staged.rename(out)
        fsync_folder(out.parent)


def remove_work(work: Path) -> None:
    """Remove a work folder whose output has been published; what can't be removed is left to the next run."""
    with contextlib.suppress(OSError):
        shutil.rmtree(work)


def _exchange(left: Path, right: Path) -> bool:
    """Exchange two paths in one step; False where the system or file system can't."""
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(left), os.fsencode(right)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(*paths, _EXCHANGE) == 0)
    if hasattr(library, "renameat2"):
        return bool(library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _EXCHANGE) == 0)
    return False
