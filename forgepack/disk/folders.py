"""Putting a finished folder in its place: the old state or the new one, never a half.

``.NAME.work`` beside the place ``NAME`` holds the work, locked against a second run; a finished folder waits there
as ``new``. An old folder is exchanged for it in one step where the system can (Linux, macOS). Where the file system
can't (NFS, SMB, exFAT), the old one is set aside as ``.NAME.old``, the new one is put in, and the old one is removed,
in this order. A run that finds ``.NAME.old`` without ``NAME`` puts it back, and removes it where ``NAME`` stands.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forgepack.disk.failures import writing
from forgepack.disk.files import fsync_folder
from forgepack.disk.locks import LOCK, held
from forgepack.disk.places import (
    Inputs,
    aside_folder,
    check_folder,
    new_folder,
    refuse_foreign_files,
    work_folder,
)
from forgepack.disk.space import demand_space, free_bytes, used_bytes
from forgepack.errors import OutputError, UsageError

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


@contextmanager
def locked_work(out: Path, *, force: bool, inputs: Inputs | None = None, needed: int = 0) -> Iterator[Path]:
    """Yield the work folder of ``out``, locked against a second run; what a dead run left in it is kept.

    First the place is checked (``check_folder``) against ``inputs`` by their roles, a replacement that was killed is
    mended, and ``needed`` bytes must be free, less what the work folder holds already. UsageError for a place that
    is refused or held by another run, OutputError for a disk that is full or can't be written.
    """
    work = work_folder(out)
    check_folder(out, force=force, inputs=inputs or {})
    with writing(out):
        _check_work(work)
    busy = UsageError("another run is writing this output", where=str(work), hint="wait for it to end")
    with held(work, busy=busy):
        with writing(out):
            _mend(out)
        check_folder(out, force=force, inputs=inputs or {})
        if needed:
            try:
                demand_space(needed, free_bytes(out.parent) + used_bytes(work), out)
            except OutputError:
                _remove_empty(work)
                raise
        yield work


def _check_work(work: Path) -> None:
    """Raise UsageError where another tool's folder has the work folder's name."""
    if work.is_dir() and not work.is_symlink() and any(work.iterdir()) and not (work / LOCK).is_file():
        what = "a folder that is not forgepack's is where the work folder must be"
        raise UsageError(what, where=str(work), hint="move it away, or name another output")


def _mend(out: Path) -> None:
    """Bring a replacement that was killed back to its old state, or to its end where the new folder stands."""
    old, new, gone = aside_folder(out), new_folder(out), _gone_folder(out)
    remove_folder(gone)
    if new.is_dir():  # what was exchanged for the folder that stands, or what never stood
        _remove_old(new, out) if out.is_dir() and not old.is_dir() else shutil.rmtree(new)
    if old.is_dir() and out.is_dir():
        _remove_old(old, out)
    elif old.is_dir():
        old.rename(out)
    fsync_folder(out.parent)


def _gone_folder(out: Path) -> Path:
    """Return where a replaced folder is removed: half removed, it has no record any more that says whose it is."""
    return work_folder(out) / "gone"


@contextmanager
def scratch_folder(work: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder of a name of its own in a work folder, and remove it, and what dead runs left, of its kind.

    A child of a killed run may still write into that run's folder: this one is never the same.
    """
    with writing(work):
        for path in work.glob(f"{prefix}*"):
            remove_folder(path)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=work))
    try:
        yield folder
    finally:
        remove_folder(folder)


def fresh_folder(folder: Path) -> Path:
    """Make a folder of a work folder anew and return it; what a dead run left in it is removed."""
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    return folder


def copy_folder(source: Path, folder: Path) -> Path:
    """Copy the files below ``source`` into a folder of a work folder made anew, and return it.

    Modes and times are not copied: not every file system has them.
    """
    remove_folder(folder)
    with writing(folder):
        folder.mkdir()
        for path in sorted(source.rglob("*")):
            place = folder / path.relative_to(source)
            place.mkdir() if path.is_dir() else shutil.copyfile(path, place)
    return folder


def publish(staged: Path, out: Path) -> None:
    """Move the folder ``staged``, which is in the work folder of ``out``, to ``out``.

    An old ``out`` is removed once the new one stands; UsageError names a file that was put into it
    meanwhile, which is then kept with it in ``.NAME.old``.
    """
    new, old = new_folder(out), aside_folder(out)
    with writing(out):
        if staged != new:
            staged.rename(new)
        fsync_folder(new)
        fsync_folder(new.parent)
        if not out.is_dir():
            new.rename(out)
            fsync_folder(out.parent)
            return
        exchanged = _exchange(new, out)
        if not exchanged:
            _set_aside(new, out, old)
        fsync_folder(out.parent)
        _remove_old(new if exchanged else old, out)


def _set_aside(new: Path, out: Path, old: Path) -> None:
    """Set ``out`` aside and put ``new`` in; where that fails, the old folder is put back."""
    out.rename(old)
    fsync_folder(out.parent)
    try:
        new.rename(out)
    except OSError:
        with contextlib.suppress(OSError):
            old.rename(out)
        raise


def _remove_old(old: Path, out: Path) -> None:
    """Remove a folder that was replaced, unless it holds what this tool did not write: then it is kept aside."""
    aside, gone = aside_folder(out), _gone_folder(out)
    try:
        refuse_foreign_files(old)
    except UsageError as err:
        if old != aside:
            old.rename(aside)
        raise UsageError(
            "the folder that was replaced holds what forgepack did not write",
            where=str(aside),
            found=err.found,
            hint=f"the new output is at {out}; move {aside} away",
            code="foreign",
        ) from err
    old.rename(gone)
    fsync_folder(old.parent)
    remove_folder(gone)


def remove_work(work: Path) -> None:
    """Remove a work folder, its lock last: what is left says whose it is, and is removed by the next run."""
    with contextlib.suppress(OSError):
        for path in sorted(work.iterdir(), key=lambda path: path.name == LOCK):
            remove_folder(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        work.rmdir()


def remove_folder(folder: Path) -> None:
    """Remove a folder of a work folder as far as it can be."""
    shutil.rmtree(folder, ignore_errors=True)


def _remove_empty(work: Path) -> None:
    """Remove a work folder in which no run has left anything."""
    with contextlib.suppress(OSError):
        if [LOCK] == [path.name for path in work.iterdir()]:
            remove_work(work)


def _exchange(left: Path, right: Path) -> bool:
    """Exchange two paths in one step; False where the system or file system can't."""
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(left), os.fsencode(right)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(*paths, _EXCHANGE) == 0)
    if hasattr(library, "renameat2"):
        return bool(library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _EXCHANGE) == 0)
    return False
