"""The hidden folder inside an output folder where parts wait, held by one run at a time.

``OUT/.forgepack-fetch/`` holds ``lock`` (flock; a stale file is harmless) and one ``<path digest>-<etag>.part`` a
file. The name says which content a part belongs to, so parts of another commit are never taken for this one's:
what a dead run left is reused when its content is still wanted, else removed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forgepack.artifacts.lock import LOCK_NAME, CheckpointLock, write_lock
from forgepack.artifacts.tree import fsync_folder
from forgepack.errors import OutputError
from forgepack.hub.client import HubFile
from forgepack.hub.part import writing

STAGING_NAME = ".forgepack-fetch"
_RUN_LOCK = "lock"


class Staging:
    """The staging folder of one output folder, held by this run. Made by ``hold_staging``."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / STAGING_NAME

    def part(self, file: HubFile) -> Path:
        """Return where the file's bytes wait."""
        return self.folder / part_name(file)

    def sweep(self, files: Iterable[HubFile]) -> None:
        """Remove whatever an earlier run left and this one does not want."""
        wanted = {part_name(f) for f in files} | {_RUN_LOCK}
        with writing(self.folder):
            for item in sorted(self.folder.iterdir()):
                if item.name not in wanted and not item.is_dir():
                    item.unlink()

    def publish(self, files: Iterable[HubFile], lock: CheckpointLock) -> None:
        """Move complete parts to their names, then write the lock: killed in between, no lock says complete."""
        moved = list(files)
        with writing(self.out):
            if moved:
                (self.out / LOCK_NAME).unlink(missing_ok=True)
                fsync_folder(self.out)
            for file in moved:
                final = self.out / file.path
                _make_folder(final.parent, self.out)
                self.part(file).rename(final)
                fsync_folder(final.parent)
        write_lock(self.out, lock)

    def remove(self) -> None:
        """Remove the folder, unless parts with bytes wait in it for the next run."""
        with suppress(OSError):
            for item in self.folder.glob("*.part"):
                if item.lstat().st_size == 0:
                    item.unlink()
            if not any(item.name != _RUN_LOCK for item in self.folder.iterdir()):
                (self.folder / _RUN_LOCK).unlink(missing_ok=True)
                self.folder.rmdir()


def _make_folder(folder: Path, out: Path) -> None:
    """Make a folder below ``out``; a link that leads out of it is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    if not folder.resolve().is_relative_to(out.resolve()):
        raise OutputError("a link leads out of the output folder", where=str(folder), code="not-writable")


def part_name(file: HubFile) -> str:
    """Return the part's name: which file, and which content."""
    return f"{hashlib.sha256(file.path.encode()).hexdigest()[:12]}-{file.etag}.part"


@contextmanager
def hold_staging(out: Path) -> Iterator[Staging]:
    """Make ``out`` and its staging folder and hold them; OutputError (``out-busy``) while another run does.

    On exit an empty staging folder is removed, and ``out`` itself if this run made it and left it empty.
    """
    fresh = not out.exists()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    staging = Staging(out)
    fd = _hold(staging.folder)
    try:
        yield staging
    finally:
        staging.remove()
        os.close(fd)
        if fresh:
            with suppress(OSError):
                out.rmdir()


def _hold(folder: Path) -> int:
    """Return a locked descriptor of the run lock; its file may vanish while its owner ends, so look twice."""
    path = folder / _RUN_LOCK
    with writing(folder):
        for _ in range(100):
            folder.mkdir(exist_ok=True)
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise OutputError(
                    "a link stands where the staging folder must be", where=str(folder), code="not-writable"
                )
            with suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
                if not _lock(fd):
                    os.close(fd)
                    break
                if _same_file(fd, path):
                    return fd
                os.close(fd)
    raise OutputError(
        "another run of forgepack fetch writes into the folder",
        where=str(folder.parent),
        hint="wait for it to end, or choose another --out",
        code="out-busy",
    )


def _lock(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        os.close(fd)
        raise
    return True


def _same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False
